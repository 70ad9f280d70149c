#include "sim/input/gunzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "sim/base/error.hpp"
#include "sim/input/document.hpp"

namespace foretrain {
namespace {

constexpr int window_with_gzip_header = 15 + 16;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error({{{file}, what}});
}

// The size that the last member's trailer states (modulo 2^32): a hint, for nothing vouches for it.
std::size_t stated_size(std::string_view bytes) {
  constexpr std::size_t trailer = 8;
  if (bytes.size() < trailer) return 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[bytes.size() - 4 + i])) << (8 * i);
  return size;
}

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

std::string gunzip(std::string_view bytes, const std::string& file, std::size_t limit) {
  // No byte expands to more than about a thousand: a trailer that states more is wrong.
  constexpr std::size_t most_expansion = 1100, least_room = std::size_t{1} << 16;
  std::string text;
  std::size_t length = 0;
  text.resize(std::max(least_room, std::min({stated_size(bytes) + 1, limit, bytes.size() * most_expansion})));
  while (!bytes.empty()) {
    z_stream stream{};
    if (inflateInit2(&stream, window_with_gzip_header) != Z_OK) {
      throw Error(ErrorKind::failure, "zlib cannot be initialised");
    }
    const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, &inflateEnd);
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      if (stream.avail_in == 0 && !bytes.empty()) {
        const std::size_t part = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        stream.avail_in = static_cast<uInt>(part);
        bytes.remove_prefix(part);
      }
      if (length == text.size()) text.resize(2 * text.size());
      const std::size_t room = std::min<std::size_t>(text.size() - length, std::numeric_limits<uInt>::max());
      stream.next_out = reinterpret_cast<Bytef*>(text.data() + length);
      stream.avail_out = static_cast<uInt>(room);
      status = inflate(&stream, Z_NO_FLUSH);
      const std::size_t got = room - stream.avail_out;
      length += got;
      if (length > limit) fail(file, fmt::format("is larger than {} bytes when decompressed", limit));
      if (status == Z_BUF_ERROR || (status == Z_OK && got == 0 && stream.avail_in == 0)) {
        fail(file, "is truncated: the compressed data ends too early");
      }
      if (status != Z_OK && status != Z_STREAM_END) {
        fail(file, fmt::format("is damaged: {}", stream.msg == nullptr ? "no gzip data" : stream.msg));
      }
    }
    // What follows the end of a member is another member, or does not belong here.
    bytes = std::string_view(bytes.data() - stream.avail_in, bytes.size() + stream.avail_in);
    if (!bytes.empty() && !is_gzip(bytes)) fail(file, "is damaged: bytes follow the compressed data");
  }
  text.resize(length);
  return text;
}

std::string read_possibly_compressed(const std::filesystem::path& path, std::size_t limit) {
  std::string bytes = read_file_limited(path, limit);
  return is_gzip(bytes) ? gunzip(bytes, path.string(), limit) : bytes;
}

}  // namespace foretrain

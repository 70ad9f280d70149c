#include "sim/output/gzip_stream.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"

namespace foretrain {

struct GzipStream::State {
  z_stream stream{};
  std::array<char, 1 << 16> out{};
};

GzipStream::GzipStream(std::function<void(std::string_view)> sink)
    : sink_(std::move(sink)), state_(std::make_unique<State>()) {
  constexpr int gzip_wrapper = 16, window = 15, memory_level = 8;
  if (deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window + gzip_wrapper, memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(ErrorKind::failure, "zlib cannot start to compress: out of memory");
  }
}

GzipStream::~GzipStream() {
  deflateEnd(&state_->stream);
}

void GzipStream::write(std::string_view bytes) {
  constexpr std::size_t largest_piece = 1u << 30;  // zlib counts in 32 bits
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, std::min(bytes.size(), largest_piece));
    pump(piece, Z_NO_FLUSH);
    bytes.remove_prefix(piece.size());
  }
}

void GzipStream::finish() {
  pump({}, Z_FINISH);
}

void GzipStream::pump(std::string_view bytes, int flush) {
  z_stream& stream = state_->stream;
  // zlib only reads through next_in; its C interface does not say so.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(state_->out.data());
    stream.avail_out = static_cast<uInt>(state_->out.size());
    deflate(&stream, flush);
    sink_(std::string_view(state_->out.data(), state_->out.size() - stream.avail_out));
  } while (stream.avail_out == 0);
}

}  // namespace foretrain

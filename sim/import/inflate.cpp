#include "sim/import/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace foretrain {

struct InflatedBytes::State {
  std::vector<char> input = std::vector<char>(1 << 18);
  std::size_t at = 0, end = 0;
  bool is_known = false, is_compressed = false, is_over = false;
  z_stream stream{};
};

InflatedBytes::InflatedBytes(ByteSource source)
    : source_(std::move(source)), state_(std::make_unique<State>()) {}

InflatedBytes::~InflatedBytes() {
  if (state_->is_compressed) inflateEnd(&state_->stream);
}

std::size_t InflatedBytes::refill() {
  if (state_->at < state_->end) return state_->end - state_->at;
  state_->at = 0;
  state_->end = source_(std::span(state_->input));
  return state_->end;
}

std::size_t InflatedBytes::read(std::span<char> buffer) {
  State& s = *state_;
  if (s.is_over || buffer.empty() || refill() == 0) {
    if (s.is_compressed && !s.is_over && damage_.empty() && s.end == 0)
      damage_ = "the compressed data ends in its middle";
    return 0;
  }
  if (!s.is_known) {
    s.is_known = true;
    s.is_compressed = s.end >= 2 && s.input[0] == '\x1f' && s.input[1] == '\x8b';
    constexpr int gzip_window = 15 + 16;
    if (s.is_compressed) inflateInit2(&s.stream, gzip_window);
  }
  if (!s.is_compressed) {
    const std::size_t count = std::min(buffer.size(), s.end - s.at);
    std::memcpy(buffer.data(), s.input.data() + s.at, count);
    s.at += count;
    return count;
  }
  s.stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  s.stream.avail_out = static_cast<uInt>(std::min<std::size_t>(buffer.size(), 1U << 30));
  while (s.stream.avail_out > 0) {
    const std::size_t left = refill();
    if (left == 0) {
      damage_ = "the compressed data ends in its middle";
      s.is_over = true;
      break;
    }
    s.stream.next_in = reinterpret_cast<Bytef*>(s.input.data() + s.at);
    s.stream.avail_in = static_cast<uInt>(left);
    const int result = inflate(&s.stream, Z_NO_FLUSH);
    s.at = s.end - s.stream.avail_in;
    if (result == Z_STREAM_END) {
      if (refill() == 0 || inflateReset(&s.stream) != Z_OK) {  // another member may follow
        s.is_over = true;
        break;
      }
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damage_ = "the compressed data is damaged";
      s.is_over = true;
      break;
    }
  }
  return buffer.size() - s.stream.avail_out;
}

}  // namespace foretrain

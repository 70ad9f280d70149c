#include "sim/base/wire.hpp"

#include <bit>

namespace foretrain {
namespace {

constexpr int most_varint_bytes = 10;

bool take_varint(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  for (int i = 0; i < most_varint_bytes; ++i) {
    if (rest.empty()) return false;
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

bool next_packed(std::string_view& packed, std::uint64_t& value) {
  return !packed.empty() && take_varint(packed, value);
}

bool WireReader::read_varint(std::uint64_t& value) {
  return take_varint(rest_, value);
}

bool WireReader::read_fixed(std::size_t size) {
  if (rest_.size() < size) return false;
  number_ = 0;
  for (std::size_t i = 0; i < size; ++i)
    number_ |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  rest_.remove_prefix(size);
  return true;
}

bool WireReader::next() {
  if (!ok_ || rest_.empty()) return false;
  std::uint64_t key = 0, length = 0;
  ok_ = read_varint(key) && (key >> 3) > 0 && (key >> 3) < (std::uint64_t{1} << 29);
  if (!ok_) return false;
  field_ = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      type_ = Type::varint;
      return ok_ = read_varint(number_);
    case 1:
      type_ = Type::fixed64;
      return ok_ = read_fixed(8);
    case 2:
      type_ = Type::bytes;
      ok_ = read_varint(length) && length <= rest_.size();
      if (!ok_) return false;
      bytes_ = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
    case 5:
      type_ = Type::fixed32;
      return ok_ = read_fixed(4);
    default:  // groups are of the format's first version
      return ok_ = false;
  }
}

double WireReader::real() const {
  if (type_ == Type::fixed64) return std::bit_cast<double>(number_);
  if (type_ == Type::fixed32) return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  return 0;
}

void WireWriter::put(std::uint64_t value) {
  while (value >= 0x80) {
    out_ += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out_ += static_cast<char>(value);
}

void WireWriter::fixed(std::uint32_t field, std::uint32_t type, std::uint64_t value, int size) {
  put(field << 3 | type);
  for (int i = 0; i < size; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

void WireWriter::varint(std::uint32_t field, std::uint64_t value) {
  put(field << 3);
  put(value);
}

void WireWriter::fixed64(std::uint32_t field, std::uint64_t value) {
  fixed(field, 1, value, 8);
}

void WireWriter::real64(std::uint32_t field, double value) {
  fixed(field, 1, std::bit_cast<std::uint64_t>(value), 8);
}

void WireWriter::real32(std::uint32_t field, float value) {
  fixed(field, 5, std::bit_cast<std::uint32_t>(value), 4);
}

void WireWriter::bytes(std::uint32_t field, std::string_view value) {
  put(field << 3 | 2);
  put(value.size());
  out_ += value;
}

}  // namespace foretrain

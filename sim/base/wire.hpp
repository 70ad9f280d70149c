// The wire format of protocol buffers, of which event files, traces and models of other tools are made:
// fields as they come, without a schema. https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foretrain {

// Walks the fields of one message. What is cut or malformed ends the walk and clears ok().
class WireReader {
 public:
  enum class Type { varint, fixed64, bytes, fixed32 };

  explicit WireReader(std::string_view message) : rest_(message) {}

  // Moves to the next field; false at the end.
  bool next();
  bool ok() const { return ok_; }
  std::uint32_t field() const { return field_; }
  Type type() const { return type_; }

  // Of the field, in the form that it has; of another form 0 or empty.
  std::uint64_t varint() const { return type_ == Type::varint ? number_ : 0; }
  std::int64_t integer() const { return static_cast<std::int64_t>(varint()); }
  double real() const;  // of fixed64 a double, of fixed32 a float
  std::string_view bytes() const { return type_ == Type::bytes ? bytes_ : std::string_view(); }

 private:
  bool read_varint(std::uint64_t& value);
  bool read_fixed(std::size_t size);

  std::string_view rest_, bytes_;
  std::uint32_t field_ = 0;
  Type type_ = Type::varint;
  std::uint64_t number_ = 0;
  bool ok_ = true;
};

// The varints of a packed field.
bool next_packed(std::string_view& packed, std::uint64_t& value);

class WireWriter {
 public:
  void varint(std::uint32_t field, std::uint64_t value);
  void fixed64(std::uint32_t field, std::uint64_t value);
  void real64(std::uint32_t field, double value);
  void real32(std::uint32_t field, float value);
  void bytes(std::uint32_t field, std::string_view value);
  void message(std::uint32_t field, const WireWriter& inner) { bytes(field, inner.text()); }
  const std::string& text() const { return out_; }

 private:
  void put(std::uint64_t value);
  void fixed(std::uint32_t field, std::uint32_t type, std::uint64_t value, int size);
  std::string out_;
};

}  // namespace foretrain

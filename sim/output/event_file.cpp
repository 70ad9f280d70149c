#include "sim/output/event_file.hpp"

#include <boost/crc.hpp>
#include <cmath>
#include <filesystem>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/wire.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain {
namespace {

// event.proto, summary.proto and tensor.proto of TensorFlow.
enum EventField : std::uint32_t { wall_time = 1, step = 2, file_version = 3, summary = 5 };
enum SummaryField : std::uint32_t { value = 1 };
enum ValueField : std::uint32_t { tag = 1, simple_value = 2, tensor = 8 };
enum TensorField : std::uint32_t { element_type = 1, content = 4, float_value = 5, double_value = 6 };

constexpr std::size_t length_bytes = 8, crc_bytes = 4;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return out;
}

void append(std::string& out, std::uint64_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
}

// The bytes of one number as a message's only field of that type.
double real_of(std::string_view bytes, bool is_double) {
  const std::string message = std::string(1, static_cast<char>(is_double ? 9 : 13)) + std::string(bytes);
  WireReader reader(message);
  return reader.next() ? reader.real() : 0;
}

// A scalar that newer versions write as a tensor of one element.
std::optional<double> tensor_value(std::string_view message) {
  constexpr std::uint64_t type_double = 2;
  bool is_double = false;
  std::optional<double> out;
  std::string_view raw;
  for (WireReader reader(message); reader.next();) {
    if (reader.field() == element_type) is_double = reader.varint() == type_double;
    if (reader.field() == content) raw = reader.bytes();
    const bool is_real = reader.field() == float_value || reader.field() == double_value;
    const bool is_packed = reader.type() == WireReader::Type::bytes;
    const std::size_t size = reader.field() == double_value ? 8 : 4;
    if (is_real && !is_packed) out = reader.real();
    if (is_real && is_packed && reader.bytes().size() == size) out = real_of(reader.bytes(), size == 8);
  }
  if (!out && raw.size() == (is_double ? 8U : 4U)) out = real_of(raw, is_double);
  return out;
}

void read_event(std::string_view message, EventFile& file) {
  double time = 0;
  std::int64_t at = 0;
  bool has_scalar = false, is_known = false;
  WireReader event(message);
  std::string_view summaries;
  while (event.next()) {
    if (event.field() == wall_time) time = event.real();
    if (event.field() == step) at = event.integer();
    if (event.field() == file_version) is_known = true;
    if (event.field() == summary) summaries = event.bytes();
  }
  bool ok = event.ok() && std::isfinite(time);
  WireReader values(summaries);
  while (values.next()) {
    if (values.field() != value) continue;
    ScalarEvent scalar{time, at, {}, 0};
    std::optional<double> read;
    WireReader fields(values.bytes());
    while (fields.next()) {
      if (fields.field() == tag) scalar.tag = fields.bytes();
      if (fields.field() == simple_value) read = fields.real();
      if (fields.field() == tensor && !read) read = tensor_value(fields.bytes());
    }
    ok = ok && fields.ok();
    if (!read || !ok) continue;
    scalar.value = *read;
    has_scalar = true;
    file.events.push_back(std::move(scalar));
  }
  if (!ok || !values.ok()) {
    ++file.damaged;
  } else if (!has_scalar && !is_known) {
    ++file.others;
  }
}

}  // namespace

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xA282EAD8U;
}

EventFile read_event_file(std::string_view bytes, const std::string& file) {
  EventFile out;
  bool has_record = false;
  while (!bytes.empty()) {
    constexpr std::size_t head = length_bytes + crc_bytes;
    const bool has_head = bytes.size() >= head;
    const bool is_record = has_head && masked_crc(bytes.substr(0, length_bytes)) ==
                                           little_endian(bytes.substr(length_bytes, crc_bytes));
    if (!is_record) {
      // Without the length the next record cannot be found.
      if (!has_record)
        throw Error(ErrorKind::input,
                    file + ": is no event file of TensorBoard: its first record has no right checksum");
      has_head ? ++out.damaged : 0;
      out.is_cut = true;
      return out;
    }
    has_record = true;
    const std::uint64_t length = little_endian(bytes.substr(0, length_bytes));
    if (length > bytes.size() - head || bytes.size() - head - length < crc_bytes) {
      out.is_cut = true;
      return out;
    }
    const std::string_view data = bytes.substr(head, length);
    if (masked_crc(data) == little_endian(bytes.substr(head + length, crc_bytes))) {
      read_event(data, out);
    } else {
      ++out.damaged;
    }
    bytes.remove_prefix(head + length + crc_bytes);
  }
  if (!has_record) throw Error(ErrorKind::input, file + ": is empty");
  return out;
}

void write_event_file(const std::string& folder, const std::string& scenario, const std::string& kind,
                      const std::vector<ScalarEvent>& events) {
  const std::filesystem::path place = std::filesystem::path(folder) / scenario / kind;
  std::error_code wrong;
  std::filesystem::create_directories(place, wrong);
  if (wrong) throw Error(ErrorKind::input, place.string() + ": cannot be made: " + wrong.message());
  write_file((place / "events.out.tfevents.0.foretrain").string(), event_file_text(events));
}

std::string event_file_text(const std::vector<ScalarEvent>& events) {
  std::string out;
  const auto record = [&](const std::string& data) {
    std::string length;
    append(length, data.size(), length_bytes);
    out += length;
    append(out, masked_crc(length), crc_bytes);
    out += data;
    append(out, masked_crc(data), crc_bytes);
  };
  WireWriter first;
  first.real64(wall_time, events.empty() ? 0 : events.front().wall_time);
  first.bytes(file_version, "brain.Event:2");
  record(first.text());
  for (const ScalarEvent& each : events) {
    WireWriter one, sum, event;
    one.bytes(tag, each.tag);
    one.real32(simple_value, static_cast<float>(each.value));
    sum.message(value, one);
    event.real64(wall_time, each.wall_time);
    event.varint(step, static_cast<std::uint64_t>(each.step));
    event.message(summary, sum);
    record(event.text());
  }
  return out;
}

}  // namespace foretrain

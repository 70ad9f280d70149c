#include "sim/import/trace_event_parser.hpp"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <cmath>
#include <limits>

#include "sim/import/lines.hpp"

namespace foretrain {
namespace {

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash | (std::uint64_t{1} << 63);
}

enum class EventField {
  other,
  phase,
  category,
  name,
  process,
  thread,
  start,
  duration,
  id,
  arguments,
  correlation,
  external,
  stream,
  device,
  bytes,
  dimensions,
  collective,
  elements,
  group_size,
  element
};

EventField key_of(std::string_view text, bool is_argument) {
  if (is_argument) {
    switch (text.size()) {
      case 5:
        return text == "bytes"   ? EventField::bytes
               : text == "dtype" ? EventField::element
                                 : EventField::other;
      case 6:
        return text == "stream"   ? EventField::stream
               : text == "device" ? EventField::device
                                  : EventField::other;
      case 10:
        return text == "Input Dims"   ? EventField::dimensions
               : text == "Group size" ? EventField::group_size
                                      : EventField::other;
      case 11:
        return text == "correlation"                            ? EventField::correlation
               : text == "External id" || text == "external id" ? EventField::external
                                                                : EventField::other;
      case 12:
        return text == "Input dims" ? EventField::dimensions : EventField::other;
      case 13:
        return text == "In msg nelems" ? EventField::elements : EventField::other;
      case 15:
        return text == "Collective name" ? EventField::collective : EventField::other;
      default:
        return EventField::other;
    }
  }
  if (text == "ph") return EventField::phase;
  if (text == "cat") return EventField::category;
  if (text == "name") return EventField::name;
  if (text == "pid") return EventField::process;
  if (text == "tid") return EventField::thread;
  if (text == "ts") return EventField::start;
  if (text == "dur") return EventField::duration;
  if (text == "id") return EventField::id;
  if (text == "args") return EventField::arguments;
  return EventField::other;
}

class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  explicit Handler(TraceEvent& event) : event_(event) { event_.ranks = {-1, -1}; }

  bool StartObject() {
    ++depth_;
    if (depth_ == 2) in_arguments_ = key_ == EventField::arguments;
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    --depth_;
    if (depth_ < 2) in_arguments_ = false;
    key_ = EventField::other;
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    const bool is_argument = depth_ == 2 && in_arguments_ && lists_ == 0;
    key_ = depth_ == 1 || is_argument ? key_of({text, length}, is_argument) : EventField::other;
    return true;
  }
  bool StartArray() {
    ++lists_;
    if (key_ != EventField::dimensions) return true;
    if (lists_ == 2 && shape_ < 1) {
      ++shape_;
      event_.shape_count = shape_ + 1;
      event_.ranks[static_cast<std::size_t>(shape_)] = 0;
    } else if (lists_ == 2) {
      shape_ = 2;
      ++event_.shape_count;
    } else if (lists_ == 3 && shape_ >= 0 && shape_ < 2) {
      event_.ranks[static_cast<std::size_t>(shape_)] = -1;  // a list of tensors
    }
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    if (--lists_ == 0) key_ = EventField::other;
    return true;
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    const std::string_view value(text, length);
    using K = EventField;
    if (lists_ > 0) return true;
    switch (key_) {
      case K::phase:
        event_.phase = value;
        break;
      case K::category:
        event_.category = value;
        break;
      case K::name:
        event_.name = value;
        break;
      case K::process:
      case K::thread: {
        double number = 0;
        const std::uint64_t id = read_number(value, number) && number >= 0
                                     ? static_cast<std::uint64_t>(std::min(number, 9e15))
                                     : hash_of(value);
        (key_ == K::process ? event_.process : event_.thread) = id;
        break;
      }
      case K::collective:
        event_.collective = value;
        break;
      case K::element:
        event_.element = value;
        break;
      case K::other:
      case K::id:
      case K::arguments:
        break;
      default: {
        double number = 0;
        event_.is_string_id = true;
        if (read_number(value, number)) return take(number);
        break;
      }
    }
    return true;
  }
  bool Int(int v) { return take(v); }
  bool Uint(unsigned v) { return take(v); }
  bool Int64(std::int64_t v) { return take(static_cast<double>(v)); }
  bool Uint64(std::uint64_t v) { return take(static_cast<double>(v)); }
  bool Double(double v) { return take(v); }
  bool Null() { return true; }
  bool Bool(bool) { return true; }

 private:
  static std::int64_t integer(double v) {
    constexpr double most = 9e15;
    return std::isfinite(v) && std::fabs(v) <= most ? static_cast<std::int64_t>(v) : -1;
  }
  bool take(double v) {
    using K = EventField;
    if (lists_ > 0) {
      if (key_ != K::dimensions || lists_ != 2 || shape_ < 0 || shape_ > 1) return true;
      const auto at = static_cast<std::size_t>(shape_);
      int& rank = event_.ranks[at];
      if (rank >= 0 && rank < TraceEvent::most_dimensions)
        event_.shapes[at][static_cast<std::size_t>(rank++)] = integer(v);
      return true;
    }
    switch (key_) {
      case K::process:
        event_.process = static_cast<std::uint64_t>(integer(v));
        break;
      case K::thread:
        event_.thread = static_cast<std::uint64_t>(integer(v));
        break;
      case K::start:
        event_.start = v;
        event_.has_start = std::isfinite(v);
        break;
      case K::duration:
        event_.duration = v;
        event_.has_duration = true;
        break;
      case K::correlation:
        event_.correlation = integer(v);
        break;
      case K::external:
        event_.external_id = integer(v);
        break;
      case K::stream:
        event_.stream = integer(v);
        break;
      case K::device:
        event_.device = integer(v);
        break;
      case K::bytes:
        event_.bytes = v;
        break;
      case K::elements:
        event_.elements = v;
        break;
      case K::group_size:
        event_.group_size = v;
        break;
      default:
        break;
    }
    return true;
  }

  TraceEvent& event_;
  EventField key_ = EventField::other;
  int depth_ = 0, lists_ = 0, shape_ = -1;
  bool in_arguments_ = false;
};

}  // namespace

struct TraceEventParser::Parts {
  rapidjson::Reader reader;
};

TraceEventParser::TraceEventParser() : parts_(std::make_unique<Parts>()) {}
TraceEventParser::~TraceEventParser() = default;

std::string TraceEventParser::parse(std::string& text, TraceEvent& event) {
  constexpr unsigned flags = rapidjson::kParseInsituFlag | rapidjson::kParseIterativeFlag |
                             rapidjson::kParseNanAndInfFlag | rapidjson::kParseTrailingCommasFlag;
  rapidjson::InsituStringStream stream(text.data());
  Handler handler(event);
  const rapidjson::ParseResult result = parts_->reader.Parse<flags>(stream, handler);
  if (!result) return rapidjson::GetParseError_En(result.Code());
  return {};
}

}  // namespace foretrain

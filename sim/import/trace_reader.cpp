#include "sim/import/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/utf8.hpp"
#include "sim/import/inflate.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/trace_event_parser.hpp"

namespace foretrain {
namespace {

constexpr std::size_t largest_event = std::size_t{4} << 20, largest_head = std::size_t{16} << 20;

// A quote is set at the end of each line that has an odd number of them. No string of JSON holds a line's
// end.
std::string with_closed_quotes(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    bool is_open = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == '"') {
        is_open = !is_open;
      }
    }
    if (is_open) {
      const std::size_t last = line.find_last_not_of(" \t\r,");
      line.insert(last == std::string::npos ? line.size() : last + 1, "\"");
    }
    out += line;
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

class Reader {
 public:
  Reader(const ByteSource& bytes, const std::string& file, bool strict,
         const std::function<void(const TraceEvent&)>& take)
      : source_(bytes), file_(file), strict_(strict), take_(take), buffer_(1 << 18) {}

  TraceReading read() {
    while (const std::size_t count = source_.read(buffer_)) {
      for (std::size_t i = 0; i < count;)
        i = state_ == State::events ? in_events(i, count) : in_head(i, count);
      out_.bytes += static_cast<std::int64_t>(count);
    }
    out_.damage.compression = source_.damage();
    if (!source_.damage().empty() && strict_) fail(out_.bytes, source_.damage());
    if (out_.bytes == 0) throw Error(ErrorKind::input, file_ + ": is empty");
    if (state_ == State::head)
      throw Error(ErrorKind::input,
                  file_ + ": has no list 'traceEvents': it is no trace of PyTorch's profiler");
    if (state_ == State::events) {
      out_.damage.is_cut = true;
      if (strict_) fail(out_.bytes, "the trace ends within its list of events");
      if (!event_.empty()) ++out_.damage.dropped;
    }
    read_head();
    return std::move(out_);
  }

 private:
  enum class State { head, events, tail };

  [[noreturn]] void fail(std::int64_t offset, const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: byte {}: {}", file_, offset, what));
  }

  // Up to and with the list's bracket; the text before and after it is kept, and read as JSON at the end.
  std::size_t in_head(std::size_t i, std::size_t count) {
    static constexpr std::string_view key = "\"traceEvents\"";
    for (; i < count; ++i) {
      const char c = buffer_[i];
      if (head_.size() < largest_head) head_ += c;
      if (state_ == State::tail || c != '[') continue;
      // The list is what comes after its key, or all there is.
      std::string_view before(head_);
      before.remove_suffix(1);
      while (!before.empty() && (before.back() == ' ' || before.back() == '\n' || before.back() == '\r' ||
                                 before.back() == '\t' || before.back() == ':'))
        before.remove_suffix(1);
      if (!before.ends_with(key) && !before.empty() && before != "\xEF\xBB\xBF") continue;
      is_bare_ = !before.ends_with(key);
      state_ = State::events;
      return i + 1;
    }
    return i;
  }

  std::size_t in_events(std::size_t i, std::size_t count) {
    const char* const data = buffer_.data();
    while (i < count) {
      if (depth_ == 0) {
        const char c = data[i];
        if (c == '{') {
          begin_ = out_.bytes + static_cast<std::int64_t>(i);
        } else if (c == ']') {
          state_ = State::tail;
          head_ += c;
          return i + 1;
        } else {
          const bool is_between = c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
          if (!is_between && strict_)
            fail(out_.bytes + static_cast<std::int64_t>(i), "neither an event nor the end of the list");
          ++i;
          continue;
        }
      }
      const std::size_t first = i;
      const bool is_whole = scan_event(i, count);
      event_.append(data + first, i - first);
      if (is_whole) {
        finish_event();
      } else if (event_.size() > largest_event) {
        drop("an event of more than 4 MiB, or one whose end is missing");
      }
    }
    return i;
  }

  // Moves to behind the event's last brace; false where the buffer ends before.
  bool scan_event(std::size_t& i, std::size_t count) {
    const char* const data = buffer_.data();
    for (; i < count; ++i) {
      const auto c = static_cast<unsigned char>(data[i]);
      if (in_string_) {
        if (is_escaped_) {
          is_escaped_ = false;
        } else if (c == '\\') {
          is_escaped_ = true;
        } else if (c == '"') {
          in_string_ = false;
        } else if (c < 0x20) {
          has_control_ = true;
          if (c == '\n') {  // no string holds one: its quote is missing
            in_string_ = false;
            is_broken_ = true;
            line_ = LineStart::blank;
          }
        } else if (c >= 0x80) {
          has_high_ = true;
        }
        continue;
      }
      if (c == '"') {
        in_string_ = true;
        if (line_ == LineStart::blank) line_ = LineStart::other;
      } else if (c == '{') {
        // After a broken line braces may not match: an event begins on a line with a brace alone.
        if (is_broken_ && line_ == LineStart::blank && depth_ > 0 && previous_ == LineStart::closing) {
          resync_ = true;
          return true;
        }
        ++depth_;
        line_ = LineStart::other;
      } else if (c == '}') {
        line_ = line_ == LineStart::blank ? LineStart::closing : line_;
        if (--depth_ == 0) {
          ++i;
          return true;
        }
      } else if (c == '\n') {
        previous_ = line_;
        line_ = LineStart::blank;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != ',' && line_ == LineStart::blank) {
        line_ = LineStart::other;
      }
    }
    return false;
  }

  void reset() {
    event_.clear();
    depth_ = 0;
    in_string_ = is_escaped_ = has_control_ = has_high_ = is_broken_ = resync_ = false;
    line_ = previous_ = LineStart::other;
  }

  void drop(const std::string& why) {
    if (strict_) fail(begin_, why);
    ++out_.damage.dropped;
    reset();
  }

  void finish_event() {
    if (has_high_ && !is_utf8(event_)) {
      if (strict_) fail(begin_, "an event that is not UTF-8");
      ++out_.damage.bad_utf8;
    }
    if (has_control_ && !is_broken_) {
      if (strict_) fail(begin_, "a control character within a string");
      ++out_.damage.control_characters;
      for (char& c : event_)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = ' ';
    }
    if (is_broken_) {
      if (strict_) fail(begin_, "a string without its closing quote");
      event_ = with_closed_quotes(event_);
    }
    TraceEvent event;
    const std::string error = parser_.parse(event_, event);
    if (!error.empty()) return drop(error);
    if (is_broken_) ++out_.damage.repaired_quotes;
    if (event.is_string_id) {
      if (strict_) fail(begin_, "an id that is text where a number belongs");
      ++out_.damage.string_ids;
    }
    ++out_.events;
    take_(event);
    reset();
  }

  // What stands beside the events; the list itself has been left out.
  void read_head() {
    if (is_bare_) return;
    if (state_ == State::events) head_ += "]}";
    const nlohmann::json root = nlohmann::json::parse(head_, nullptr, false);
    if (!root.is_object()) return;
    TraceHead& head = out_.head;
    const auto integer = [](const nlohmann::json& object, const char* key, int otherwise) {
      const auto found = object.find(key);
      return found != object.end() && found->is_number_integer() ? found->get<int>() : otherwise;
    };
    if (const auto devices = root.find("deviceProperties"); devices != root.end() && devices->is_array()) {
      head.gpus = static_cast<int>(devices->size());
      if (!devices->empty() && devices->front().is_object()) {
        const nlohmann::json& first = devices->front();
        if (const auto name = first.find("name"); name != first.end() && name->is_string())
          head.gpu = name->get<std::string>();
        if (const auto memory = first.find("totalGlobalMem"); memory != first.end() && memory->is_number())
          head.memory_bytes = memory->get<double>();
      }
    }
    if (const auto job = root.find("distributedInfo"); job != root.end() && job->is_object()) {
      head.rank = integer(*job, "rank", -1);
      head.world_size = integer(*job, "world_size", 0);
      if (const auto version = job->find("nccl_version"); version != job->end() && version->is_string())
        head.nccl = version->get<std::string>();
    }
    head.has_shapes = integer(root, "record_shapes", 0) != 0;
  }

  enum class LineStart { blank, closing, other };

  InflatedBytes source_;
  std::string file_;
  bool strict_;
  const std::function<void(const TraceEvent&)>& take_;
  std::vector<char> buffer_;
  State state_ = State::head;
  bool is_bare_ = false;
  std::string head_, event_;
  std::int64_t begin_ = 0;
  int depth_ = 0;
  bool in_string_ = false, is_escaped_ = false, has_control_ = false, has_high_ = false, is_broken_ = false,
       resync_ = false;
  LineStart line_ = LineStart::other, previous_ = LineStart::other;
  TraceEventParser parser_;
  TraceReading out_;
};

}  // namespace

TraceReading read_trace(const ByteSource& bytes, const std::string& file, bool strict,
                        const std::function<void(const TraceEvent&)>& take) {
  return Reader(bytes, file, strict, take).read();
}

}  // namespace foretrain

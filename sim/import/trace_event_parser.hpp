// One event of a trace: JSON text -> TraceEvent, by RapidJSON.
#pragma once

#include <memory>
#include <string>

#include "sim/import/trace_reader.hpp"

namespace foretrain {

class TraceEventParser {
 public:
  TraceEventParser();
  ~TraceEventParser();

  // Views of the event point into `text`, which is changed. Empty, or why it is no event.
  std::string parse(std::string& text, TraceEvent& event);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace foretrain

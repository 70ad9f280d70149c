#include "sim/output/caveats_json.hpp"

namespace foretrain {

void write_caveats(JsonWriter& writer, std::span<const std::string> warnings,
                   std::span<const Extrapolation> extrapolated) {
  writer.key("warnings");
  writer.begin_array();
  for (const std::string& warning : warnings) writer.value(warning);
  writer.end_array();
  writer.key("extrapolated");
  writer.begin_array();
  for (const Extrapolation& each : extrapolated) {
    writer.begin_object();
    writer.member("what", each.what);
    writer.member("asked", each.asked);
    writer.member("range", each.range);
    writer.end_object();
  }
  writer.end_array();
}

}  // namespace foretrain

#include "sim/output/timeline.hpp"

namespace foretrain {

const char* name_of(Track track) {
  switch (track) {
    case Track::host:
      return "host";
    case Track::compute:
      return "compute";
    case Track::communication:
      return "communication";
    case Track::copy:
      return "copy";
  }
  return "";
}

}  // namespace foretrain

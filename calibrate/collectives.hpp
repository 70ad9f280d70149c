// Times of collectives by kind, size, algorithm and protocol. All ranks of a communicator run the same code
// and exchange what they measured, so that they agree on how often to repeat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/session.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// What the library is told to use; "auto" leaves the choice to it.
struct CollectiveSetting {
  std::string algorithm = "auto";  // auto, ring, tree
  std::string protocol = "auto";   // auto, LL, LL128, Simple
};

// One curve: a kind, an element type and a setting over sizes.
struct CollectiveCurve {
  CollectiveKind kind = CollectiveKind::all_reduce;
  device::ElementType element = device::ElementType::fp32;
  CollectiveSetting setting;
};

struct CollectiveOptions {
  std::int64_t least_bytes = 256, most_bytes = std::int64_t{1} << 30;
  std::vector<std::int64_t>
      more_bytes;  // also measured, of all-reduces, reduces and broadcasts in fp32 as the library chooses
  double relative_error = 0.02;  // of a median, to stop at
  double seconds = 15;           // of wall clock for all curves of a group size; then the rest is left out
  bool forced = true;            // ring and tree with each protocol besides auto
  bool bf16 = true;              // besides fp32
  bool skips_long = false;       // sizes that would take most of the time, as always between nodes
  int refinements = 2;           // bisections between two sizes where the choice changes
};

// The curves in the order of what matters most, by setting (a communicator has one).
std::vector<CollectiveCurve> collective_curves(bool forced, bool bf16 = true);

// Sizes doubling from least to most, each a multiple of 16 bytes a rank.
std::vector<std::int64_t> collective_sizes(std::int64_t least, std::int64_t most, int ranks);

// NCCL's environment for a communicator made from now on in this process; restores it when it goes.
class SettingGuard {
 public:
  explicit SettingGuard(const CollectiveSetting& setting);
  ~SettingGuard();
  SettingGuard(const SettingGuard&) = delete;
  SettingGuard& operator=(const SettingGuard&) = delete;

 private:
  bool set_algorithm_ = false, set_protocol_ = false;
};

// Where the ranks stand: fills the fields that all entries share.
struct Placement {
  int ranks = 1;
  int nodes = 1;
  std::string network;
  double line_rate = 0;
};

// Measures one curve. `communicator` is null on a rank that takes no part but decides along with the others.
// Entries are alike on all ranks, but only rank 0 asks the library what it chose. Stops early, between sizes,
// once `deadline` (the clock's seconds) is past; `left_out` then counts the sizes that were not measured.
std::vector<CollectiveEntry> measure_curve(Session& session, RankGroup& group,
                                           device::Communicator* communicator, device::Buffer buffer,
                                           const CollectiveCurve& curve, const Placement& placement,
                                           const CollectiveOptions& options, double deadline, int& left_out);

// One chain of back-to-back calls; the time of a call, the slowest rank's. The chain is issued behind a gate,
// so that small calls do not wait for the host; not where `first`: a kind's first call on a communicator
// makes connections, which must not wait for a gate.
double time_chain(Session& session, RankGroup& group, device::Communicator* communicator, EventPool& events,
                  device::Buffer buffer, const CollectiveCurve& curve, std::int64_t bytes, int length,
                  bool first = false);

const char* name_of(device::ElementType element);
std::int64_t element_size(device::ElementType element);

}  // namespace foretrain::calibrate

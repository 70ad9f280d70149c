#include "calibrate/launcher.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "sim/base/error.hpp"

namespace foretrain::calibrate {
namespace {

int number(const std::string& name, const std::string& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    throw Error(ErrorKind::input, "the environment variable " + name + " holds '" + text +
                                      "', not a number from " + std::to_string(least) + " up");
  return value;
}

void set_address(LaunchedRank& launched, const std::string& source, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw Error(ErrorKind::input, source + ": '" + text + "' is no address; write host:port");
  launched.host = text.substr(0, colon);
  if (launched.host.size() > 2 && launched.host.front() == '[' && launched.host.back() == ']')
    launched.host = launched.host.substr(1, launched.host.size() - 2);
  launched.port = number(source, text.substr(colon + 1), 1);
  if (launched.port > 65535)
    throw Error(ErrorKind::input, source + ": no port " + std::to_string(launched.port));
}

// All of mpirun's processes run here.
bool is_one_node(const Environment& environment) {
  const char* local = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* all = environment("OMPI_COMM_WORLD_SIZE");
  return local != nullptr && all != nullptr && std::string_view(local) == all;
}

}  // namespace

std::vector<LaunchedRank> ranks_served(const LaunchedRank& launched, int devices) {
  if (launched.launcher != "NODE_RANK") return {launched};
  std::vector<LaunchedRank> served(static_cast<std::size_t>(std::max(devices, 1)), launched);
  const int count = static_cast<int>(served.size());
  for (int device = 0; device < count; ++device) {
    LaunchedRank& rank = served[static_cast<std::size_t>(device)];
    rank.local_rank = device;
    rank.rank = launched.rank * count + device;
    rank.ranks = launched.ranks * count;
  }
  return served;
}

double host_id(const Environment& environment) {
  const std::string name = node_name(environment);
  // FNV-1a, folded to the 53 bits that a double holds.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const unsigned char letter : name) hash = (hash ^ letter) * 1099511628211ULL;
  return static_cast<double>((hash ^ (hash >> 53)) & ((std::uint64_t{1} << 53) - 1));
}

std::string first_host(const std::string& list) {
  const std::size_t open = list.find('[');
  const std::size_t comma = list.find(',');
  if (open == std::string::npos || comma < open) return list.substr(0, comma);
  const std::size_t end = list.find_first_of(",-]", open);
  if (end == std::string::npos) return list.substr(0, open);
  return list.substr(0, open) + list.substr(open + 1, end - open - 1);
}

std::optional<LaunchedRank> launched_rank(const Environment& environment, const std::string& rendezvous) {
  const LaunchEnvironment started = read_launch_environment(environment);
  LaunchedRank launched;
  launched.launcher = started.launcher;
  launched.rank = started.rank;
  launched.ranks = started.ranks;
  launched.local_rank = started.local_rank;
  if (started.kind == LaunchEnvironment::Kind::process_a_node) {
    launched.rank = started.node;
    launched.ranks = started.nodes;
  }
  // An interactive Slurm shell or a batch script has the variables of a step of one task.
  if (started.kind == LaunchEnvironment::Kind::alone || launched.ranks == 1) return std::nullopt;

  if (!rendezvous.empty()) {
    set_address(launched, "--rendezvous", rendezvous);
  } else if (const char* id = environment("NCCL_COMM_ID")) {
    // NCCL itself listens on that port.
    set_address(launched, "NCCL_COMM_ID", id);
    launched.port = launched.port % 65535 + 1;
  } else if (launched.launcher == "torchrun") {
    // torchrun's own store listens on MASTER_PORT.
    const char *host = environment("MASTER_ADDR"), *port = environment("MASTER_PORT");
    launched.host = host ? host : "127.0.0.1";
    launched.port = (port ? number("MASTER_PORT", port, 1) : 29500) % 65535 + 1;
  } else if (const char* nodes = environment("SLURM_STEP_NODELIST")) {
    launched.host = first_host(nodes);
    const char* job = environment("SLURM_JOB_ID");
    launched.port = 20000 + (job ? number("SLURM_JOB_ID", job, 0) % 20000 : 0);
  } else if (is_one_node(environment)) {
    launched.host = "127.0.0.1";  // all on one node
    launched.port = 29611;
  }
  return launched;
}

}  // namespace foretrain::calibrate

#include "sim/import/topology_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/node_graph.hpp"
#include "sim/network/families.hpp"

namespace foretrain {
namespace {

// How far two devices are apart; what lies nearer is a smaller number.
enum Distance {
  same_switch = 0,
  several_switches,
  host_bridge,
  same_socket,
  across_sockets,
  level_count,
  unknown = -1
};

struct Cell {
  Distance distance = unknown;
  int nvlinks = 0;
  bool is_self = false;
};

struct Word {
  std::string text;
  bool begins_line = false;
  int line = 0;
};

bool read_cell(std::string_view text, Cell& cell) {
  static const std::map<std::string_view, Distance> names = {
      {"PIX", same_switch},  {"PXB", several_switches}, {"PSB", several_switches}, {"PHB", host_bridge},
      {"NODE", same_socket}, {"SYS", across_sockets},   {"SOC", across_sockets}};
  cell = {};
  if (text == "X") {
    cell.is_self = true;
    return true;
  }
  if (const auto found = names.find(text); found != names.end()) {
    cell.distance = found->second;
    return true;
  }
  double links = 0;
  constexpr double most_links = 64;
  if (!text.starts_with("NV") || !read_number(text.substr(2), links) || links < 1 || links > most_links)
    return false;
  cell.nvlinks = static_cast<int>(links);
  return true;
}

// "GPU" or "NIC" and a number, or the name of an adapter as older versions print it: mlx5_0, hfi1_0.
bool is_device(std::string_view text) {
  if (text.empty() || text.back() < '0' || text.back() > '9') return false;
  Cell ignored;
  return !read_cell(text, ignored) &&
         ((text[0] >= 'a' && text[0] <= 'z') || text.starts_with("GPU") || text.starts_with("NIC"));
}

bool is_gpu(std::string_view text) {
  return text.starts_with("GPU");
}

struct Matrix {
  std::vector<std::string> devices;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::string> affinity;  // of the processor, as text; equal where devices share a socket
  std::size_t size() const { return devices.size(); }
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : file_(file) {
    int line = 0;
    for (const std::string_view raw : lines_of(text)) {
      ++line;
      bool begins = true;
      const std::string plain = without_escapes(raw);
      for (const std::string_view word : words_of(plain)) {
        words_.push_back({std::string(word), begins, line});
        begins = false;
      }
    }
  }

  Matrix read() {
    read_head();
    for (std::size_t row = 0; row < matrix_.size(); ++row) read_row(row);
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    const int line = at_ < words_.size() ? words_[at_].line : words_.empty() ? 0 : words_.back().line;
    throw Error({{{file_, line, 0}, what}});
  }

  // The devices of the first line of names: up to the affinity columns, or to the first of them again.
  void read_head() {
    while (at_ < words_.size() && !is_gpu(words_[at_].text)) ++at_;
    if (at_ == words_.size()) refuse("has no line of GPU0, GPU1, ... as nvidia-smi topo -m begins with");
    for (; at_ < words_.size() && is_device(words_[at_].text); ++at_) {
      const bool again = !matrix_.devices.empty() && words_[at_].text == matrix_.devices.front();
      if (again) break;
      matrix_.devices.push_back(words_[at_].text);
      constexpr std::size_t most = 256;
      if (matrix_.size() > most) refuse("names more than 256 devices");
    }
    if (matrix_.devices.empty())
      refuse(fmt::format("'{}' is no device: a line names GPU0, GPU1, ...", words_[at_].text));
    // A name that was wrapped within itself would leave its rows without a column.
    matrix_.cells.assign(matrix_.size(), std::vector<Cell>(matrix_.size()));
    matrix_.affinity.assign(matrix_.size(), "");
    while (at_ < words_.size() && !(words_[at_].begins_line && words_[at_].text == matrix_.devices.front()))
      ++at_;
  }

  void read_row(std::size_t row) {
    if (at_ == words_.size() || words_[at_].text != matrix_.devices[row])
      refuse(fmt::format("the row of {} is missing: {} are named, each has a row", matrix_.devices[row],
                         matrix_.size()));
    ++at_;
    for (std::size_t column = 0; column < matrix_.size(); ++column) {
      Cell& cell = matrix_.cells[row][column];
      if (at_ == words_.size() || !read_wrapped(cell)) {
        refuse(fmt::format("row {}, column {}: {} is none of X, NV#, PIX, PXB, PHB, NODE and SYS",
                           matrix_.devices[row], matrix_.devices[column],
                           at_ < words_.size() ? "'" + words_[at_].text + "'" : "the end"));
      }
      if (cell.is_self != (row == column))
        refuse(fmt::format("row {} has its X in another column: a column is missing or too many",
                           matrix_.devices[row]));
    }
    // What follows up to the next row: affinities.
    const bool is_last = row + 1 == matrix_.size();
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_].text;
      if (word == "Legend:" || (!is_last && words_[at_].begins_line && word == matrix_.devices[row + 1]))
        break;
      if (matrix_.affinity[row].empty() && is_gpu(matrix_.devices[row])) matrix_.affinity[row] = word;
    }
  }

  bool read_wrapped(Cell& cell) {
    const bool next_begins = at_ + 1 < words_.size() && words_[at_ + 1].begins_line;
    // "NV" and "18" on the next line: the longer reading wins only where the shorter is none, or ends its
    // line.
    if (next_begins && read_cell(words_[at_].text + words_[at_ + 1].text, cell)) {
      Cell alone;
      const bool both = read_cell(words_[at_].text, alone);
      if (!both) {
        at_ += 2;
        return true;
      }
    }
    if (!read_cell(words_[at_].text, cell)) return false;
    ++at_;
    return true;
  }

  std::string file_;
  std::vector<Word> words_;
  std::size_t at_ = 0;
  Matrix matrix_;
};

// Sets of devices that are at most so far apart.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t of(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = of(a);
    b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class Builder {
 public:
  Builder(const Matrix& matrix, NodeGraph& graph) : matrix_(matrix), graph_(graph) {}

  void build() {
    int gpus = 0, nics = 0;
    for (const std::string& device : matrix_.devices)
      names_.push_back(is_gpu(device) ? fmt::format("gpu{}", gpus++) : fmt::format("nic{}", nics++));
    for (std::size_t i = 0; i < matrix_.size(); ++i)
      graph_.add(names_[i], is_gpu(matrix_.devices[i]) ? VertexKind::gpu : VertexKind::nic);
    find_nvlinks();
    pcie_ = pcie_of_generation(generation());
    add_nvlinks();
    add_pcie();
  }

  int most_links() const { return most_links_; }
  int generation() const {
    // What the NVLinks of a GPU say of its age: 18 of Hopper, 12 of Ampere, 6 of Volta.
    if (most_links_ > 12) return 5;
    if (most_links_ > 6) return 4;
    return most_links_ > 0 ? 3 : 4;
  }
  bool has_switch() const { return has_switch_; }

 private:
  void find_nvlinks() {
    constexpr int most_of_a_gpu = 18;
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      int sum = 0, largest = 0;
      for (const Cell& cell : matrix_.cells[i]) {
        sum += cell.nvlinks;
        largest = std::max(largest, cell.nvlinks);
      }
      has_switch_ = has_switch_ || sum > most_of_a_gpu;
      most_links_ = std::max({most_links_, largest, sum > most_of_a_gpu ? largest : sum});
    }
  }

  void add_nvlinks() {
    constexpr double of_a_link = 25e9;
    if (has_switch_) graph_.add("nvswitch", VertexKind::nvswitch);
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      int most = 0;
      for (std::size_t j = 0; j < matrix_.size(); ++j) {
        const int links = std::max(matrix_.cells[i][j].nvlinks, matrix_.cells[j][i].nvlinks);
        most = std::max(most, links);
        if (!has_switch_ && j > i && links > 0)
          graph_.joins.push_back(
              {names_[i], names_[j], LinkKind::nvlink, "nvlink", Rate(links * of_a_link), {}});
      }
      if (has_switch_ && most > 0)
        graph_.joins.push_back(
            {names_[i], "nvswitch", LinkKind::nvlink, "nvlink", Rate(most * of_a_link), {}});
    }
  }

  // Where NVLink hides how two GPUs stand to each other, the processor's affinity tells the socket.
  Distance distance(std::size_t i, std::size_t j) const {
    const Distance told = std::max(matrix_.cells[i][j].distance, matrix_.cells[j][i].distance);
    if (told != unknown) return told;
    return matrix_.affinity[i] == matrix_.affinity[j] ? same_socket : across_sockets;
  }

  void add_pcie() {
    std::vector<Groups> levels(level_count, Groups(matrix_.size()));
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        for (int level = distance(i, j); level < level_count; ++level)
          levels[static_cast<std::size_t>(level)].join(i, j);
      }
    }
    // From the devices upwards: what a group of several has in common becomes a vertex.
    std::vector<std::string> holder = names_;
    std::map<VertexKind, int> numbers;
    for (int level = same_switch; level < level_count; ++level) {
      std::map<std::size_t, std::vector<std::string>> members;
      for (std::size_t i = 0; i < matrix_.size(); ++i) {
        std::vector<std::string>& own = members[levels[static_cast<std::size_t>(level)].of(i)];
        if (std::find(own.begin(), own.end(), holder[i]) == own.end()) own.push_back(holder[i]);
      }
      const bool is_bridge_level = level >= host_bridge;
      for (const auto& [group, below] : members) {
        // Every device reaches a host bridge; above that only what joins several is there.
        if (below.size() < 2 && level != host_bridge) continue;
        std::string name;
        if (level > host_bridge) {
          name = below.front();  // bridges and sockets meet in the first
          for (std::size_t k = 1; k < below.size(); ++k) join(below[k], name);
        } else {
          const VertexKind kind = is_bridge_level ? VertexKind::host_bridge : VertexKind::pcie_switch;
          name = fmt::format("{}{}", kind == VertexKind::host_bridge ? "bridge" : "pcie", numbers[kind]++);
          graph_.add(name, kind);
          for (const std::string& each : below) join(each, name);
        }
        for (std::size_t i = 0; i < matrix_.size(); ++i)
          if (levels[static_cast<std::size_t>(level)].of(i) == group) holder[i] = name;
      }
    }
  }

  void join(const std::string& from, const std::string& to) {
    const bool is_nic = from.starts_with("nic");
    graph_.joins.push_back({from, to, LinkKind::pcie, is_nic ? "\"nic slot\"" : "pcie", pcie_.bandwidth,
                            is_nic ? 1.0 : pcie_.efficiency});
  }

  const Matrix& matrix_;
  NodeGraph& graph_;
  std::vector<std::string> names_;
  InsideDescription pcie_;
  int most_links_ = 0;
  bool has_switch_ = false;
};

}  // namespace

Imported import_topology_matrix(std::string_view text, const ImportOptions& options) {
  const Matrix matrix = Reader(text, options.file).read();
  NodeGraph graph;
  graph.title = "A machine as nvidia-smi topo -m shows it, imported";
  Builder builder(matrix, graph);
  builder.build();
  const int gpus = graph.count(VertexKind::gpu), nics = graph.count(VertexKind::nic);
  Imported out;
  if (!options.network.empty()) {
    graph.network = read_network_text(options.network, Transport::rdma);
    if (nics == 0) {
      graph.add("nic0", VertexKind::nic);
      graph.joins.push_back(
          {"nic0", "bridge0", LinkKind::pcie, "\"nic slot\"", pcie_of_generation(5).bandwidth, 1.0});
      out.notes.emplace_back("the matrix has no NIC: one beside the first host bridge is assumed");
    }
  } else if (nics > 0) {
    out.notes.emplace_back(
        "the matrix does not say how fast its NICs are: one node; for several add --network '100 Gbit/s "
        "rdma'");
  }
  if (builder.most_links() > 0) {
    out.notes.push_back(fmt::format(
        "NVLinks are taken for 25 GB/s each and direction (up to {} a GPU{}), which the matrix does "
        "not say",
        builder.most_links(), builder.has_switch() ? ", by a switch" : ", from GPU to GPU"));
  }
  out.notes.push_back(fmt::format(
      "PCIe is taken for generation {} with 16 lanes, which the matrix does not say", builder.generation()));
  out.summary = fmt::format("{} GPUs, {} NICs, {} links", gpus, nics, graph.joins.size());
  out.content = topology_text(graph);
  return out;
}

}  // namespace foretrain

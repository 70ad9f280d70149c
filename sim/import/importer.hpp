// Files of other tools -> files of ours. An importer is one function of bytes in a file of its own and one
// line of the table in importer.cpp; none of them prints, opens files, or does more than its input is long.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/network/collective_kind.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// What a user adds to the file; each importer takes those that its line of the table names.
struct ImportOptions {
  std::string file;    // as messages name it
  std::string target;  // name of what is written: its stem names the profile, model or topology
  std::optional<double> gradient_bytes;      // steps
  std::optional<CollectiveKind> collective;  // nccl-tests
  std::string network;                       // nccl-tests: "100 Gbit/s rdma"
  std::optional<double> step;                // kineto: seconds of a step without the profiler
  std::optional<std::int64_t> batch;         // kineto, tensorboard: samples of a step
  std::optional<Precision> precision;        // kineto
  std::string tag;                           // tensorboard: the curve's scalar
  bool strict = false;
};

struct Imported {
  std::string content;             // of the file to write
  std::string summary;             // a line: what was read
  std::vector<std::string> notes;  // what was repaired, dropped or assumed, a line each
};

// Throws Error(input) where the bytes are not what the importer reads, with the reason and the place.
using ImportFunction = Imported (*)(std::string_view bytes, const ImportOptions& options);

// Calls for the next bytes of a file that is not held as a whole: fills the buffer, returns 0 at the end.
using ByteSource = std::function<std::size_t(std::span<char> buffer)>;
using StreamedImportFunction = Imported (*)(const ByteSource& bytes, const ImportOptions& options);

struct Importer {
  const char* name;  // "nccl-tests"
  const char* reads;
  const char* writes;
  std::vector<std::string_view> options;  // names of ImportOptions' fields that it takes
  ImportFunction import = nullptr;        // of the two one is set; none where a library was not there when
  StreamedImportFunction streamed = nullptr;  // the program was built:
  const char* missing = nullptr;              // its name
};

std::span<const Importer> importers();

// What was made is read without an error by the verbs that take it, as target's name says; else numbers or
// names of the file are such that none of ours can hold them: Error(input) that says which.
void check_readable(const Imported& made, const ImportOptions& options);

}  // namespace foretrain

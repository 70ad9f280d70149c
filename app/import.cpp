#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "app/messages.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/spelling.hpp"
#include "sim/import/importer.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::string kind, file, out;
  std::string gradients, collective, network, step, precision, tag;
  std::int64_t batch = 0;
  bool strict = false;
};

const Importer& find_importer(const std::string& kind) {
  std::vector<std::string> names;
  std::string all;
  for (const Importer& importer : importers()) {
    if (kind == importer.name) return importer;
    names.emplace_back(importer.name);
    all += (all.empty() ? "" : ", ") + std::string(importer.name);
  }
  throw Error(ErrorKind::input,
              "import: unknown kind '" + kind + "'" + did_you_mean(kind, names) + "; allowed are " + all);
}

template <typename Read>
auto parsed(const std::string& option, const std::string& text, Read read) {
  auto value = read(text);
  if (const auto* wrong = std::get_if<UnitError>(&value))
    throw Error(ErrorKind::input, option + ": " + wrong->what);
  return std::get<0>(value);
}

// Those that were given; an option that the importer does not take is an error.
ImportOptions read_options(const Options& given, const Importer& importer) {
  ImportOptions options;
  options.file = given.file == "-" ? "standard input" : given.file;
  options.target = given.out;
  auto takes = [&](const char* name, bool is_given) {
    const bool is_taken =
        std::find(importer.options.begin(), importer.options.end(), name) != importer.options.end();
    if (is_given && !is_taken)
      throw Error(ErrorKind::input, fmt::format("import {}: takes no --{}", importer.name, name));
    return is_given;
  };
  if (takes("gradients", !given.gradients.empty()))
    options.gradient_bytes = static_cast<double>(parsed("--gradients", given.gradients, parse_bytes).count());
  if (takes("collective", !given.collective.empty())) {
    options.collective = collective_kind(given.collective);
    if (!options.collective)
      throw Error(ErrorKind::input, "--collective: '" + given.collective + "' is unknown");
  }
  if (takes("network", !given.network.empty())) options.network = given.network;
  if (takes("step", !given.step.empty()))
    options.step = parsed("--step", given.step, parse_time).in_seconds();
  if (takes("batch", given.batch != 0)) {
    if (given.batch < 1) throw Error(ErrorKind::input, "--batch: a batch has 1 sample or more");
    options.batch = given.batch;
  }
  if (takes("precision", !given.precision.empty())) {
    for (const Precision each : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16})
      if (given.precision == name_of(each)) options.precision = each;
    if (!options.precision)
      throw Error(ErrorKind::input, "--precision: allowed are fp32, tf32, bf16 and fp16");
  }
  if (takes("tag", !given.tag.empty())) options.tag = given.tag;
  options.strict = takes("strict", given.strict);
  return options;
}

// A file or standard input, read piece by piece.
class InputFile {
 public:
  explicit InputFile(const std::string& name)
      : name_(name), file_(name == "-" ? stdin : std::fopen(name.c_str(), "rb")) {
    if (file_ == nullptr) fail();
  }
  ~InputFile() {
    if (file_ != stdin) std::fclose(file_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t read(std::span<char> buffer) {
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file_);
    if (count == 0 && std::ferror(file_) != 0) fail();
    return count;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::input, fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)));
  }
  std::string name_;
  std::FILE* file_;
};

std::string whole(InputFile& input, const std::string& name) {
  constexpr std::size_t limit = std::size_t{2} << 30, piece = 1 << 16;
  std::string bytes;
  std::string buffer(piece, '\0');
  while (const std::size_t count = input.read(buffer)) {
    bytes.append(buffer, 0, count);
    if (bytes.size() > limit) throw Error(ErrorKind::input, name + ": is larger than 2 GiB");
  }
  return is_gzip(bytes) ? gunzip(bytes, name, limit) : bytes;
}

int import_file(const Options& given) {
  const Importer& importer = find_importer(given.kind);
  const ImportOptions options = read_options(given, importer);
  if (importer.import == nullptr && importer.streamed == nullptr) {
    throw Error(ErrorKind::unavailable,
                fmt::format("import {}: this program was built without {}; install it and build again",
                            importer.name, importer.missing));
  }
  FileWriter writer(given.out);
  InputFile input(given.file);
  const Imported made =
      importer.streamed != nullptr
          ? importer.streamed([&](std::span<char> buffer) { return input.read(buffer); }, options)
          : importer.import(whole(input, options.file), options);
  check_readable(made, options);
  writer.write(made.content);
  writer.commit();
  if (!made.summary.empty()) note(fmt::format("{}: {}", given.file, made.summary));
  for (const std::string& text : made.notes) warning(text);
  return 0;
}

}  // namespace

Action prepare_import(CLI::App& command) {
  auto options = std::make_shared<Options>();
  std::string kinds;
  for (const Importer& importer : importers())
    kinds += fmt::format("{}{} ({})", kinds.empty() ? "" : "; ", importer.name, importer.reads);
  command.add_option("KIND", options->kind, kinds)->required();
  command.add_option("FILE", options->file, "what to read; - is standard input")->required();
  command.add_option("-o,--out", options->out, "what to write; - is standard output")
      ->type_name("OUT")
      ->required();
  command
      .add_option("--gradients", options->gradients,
                  "steps, tensorboard: size of the model's gradients, as in '94 MB'")
      ->type_name("BYTES");
  command
      .add_option("--collective", options->collective,
                  "nccl-tests: which collective it was, where the log does not say")
      ->type_name("KIND");
  command
      .add_option("--network", options->network,
                  "nccl-tests, kineto, topo-m, nccl-xml on several nodes: line rate of a node and transport, "
                  "as in '100 Gbit/s rdma'")
      ->type_name("TEXT");
  command
      .add_option("--step", options->step,
                  "kineto: a step of the job without the profiler, which slows the host: '19.5 ms'")
      ->type_name("TIME");
  command
      .add_option("--batch", options->batch,
                  "kineto, tensorboard: samples of a step, where the file does not say")
      ->type_name("N");
  command
      .add_option("--precision", options->precision,
                  "kineto: fp32, tf32, bf16 or fp16; else by the kernels' names")
      ->type_name("NAME");
  command.add_option("--tag", options->tag, "tensorboard: the scalar of which a curve is made")
      ->type_name("NAME");
  command.add_flag("--strict", options->strict, "kineto: stop at the first damage, with its byte offset");
  return [options] { return import_file(*options); };
}

}  // namespace foretrain::app

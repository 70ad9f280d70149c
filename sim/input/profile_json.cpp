#include "sim/input/profile_json.hpp"

#include <array>

#include "sim/input/gunzip.hpp"
#include "sim/input/json_archive.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain {

// The members of each part, for both directions. They stand in the namespace of the structs, where the
// archives find them.

static std::array<Precision, 4> all_values(Precision) {
  return {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
}

template <typename Archive>
void describe(Archive& a, Sample& s) {
  a.begin_array();
  a.element(s.median);
  a.element(s.low);
  a.element(s.high);
  a.element(s.spread);
  a.element(s.repetitions);
  a.check(s.median >= 0 && s.spread >= 0 && s.repetitions >= 0, "has a negative value");
  a.check(s.low <= s.median && s.median <= s.high, "does not hold its median between its bounds");
}

template <typename Archive>
void describe(Archive& a, PassTiming& t) {
  a.begin_array();
  a.element(t.device);
  a.element(t.host);
  a.element(t.launches);
  a.check(t.launches >= 0, "has a negative number of launches");
}

template <typename Archive>
void describe(Archive& a, OperatorEntry& e) {
  a.required("key", e.key);
  a.optional("layer", e.layer);
  a.optional("context", e.context);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.required("passes", e.passes);
  a.optional("workspace_bytes", e.workspace_bytes);
  a.check(e.batch > 0, "has a batch below 1");
}

template <typename Archive>
void describe(Archive& a, StepEntry& e) {
  a.required("model", e.model);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.required("step_s", e.step);
  a.optional("p05_s", e.p05);
  a.optional("p95_s", e.p95);
  a.optional("peak_bytes", e.peak_bytes);
  a.optional("host_s", e.host);
  a.optional("launches", e.launches);
  a.check(e.batch > 0, "has a batch below 1");
}

template <typename Archive>
void describe(Archive& a, OptimizerEntry& e) {
  a.required("kind", e.kind);
  a.optional("model", e.model);
  a.required("precision", e.precision);
  a.required("parameters", e.parameters);
  a.required("update", e.update);
}

template <typename Archive>
void describe(Archive& a, StepWorkEntry& e) {
  a.required("what", e.what);
  a.optional("model", e.model);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.required("timing", e.timing);
}

template <typename Archive>
void describe(Archive& a, CollectiveEntry& e) {
  a.required("kind", e.kind);
  a.required("ranks", e.ranks);
  a.optional("nodes", e.nodes, 1);
  a.required("network", e.network);
  a.optional("line_rate_Bps", e.line_rate);
  a.required("algorithm", e.algorithm);
  a.required("protocol", e.protocol);
  a.optional("chosen_algorithm", e.chosen_algorithm);
  a.optional("chosen_protocol", e.chosen_protocol);
  a.optional("channels", e.channels);
  a.optional("element", e.element);
  a.required("bytes", e.bytes);
  a.required("time_s", e.time);
  a.optional("isolated_s", e.isolated);
  a.optional("host_s", e.host);
  a.check(e.ranks > 0 && e.nodes > 0 && e.bytes >= 0, "has a count out of range");
}

template <typename Archive>
void describe(Archive& a, InterferenceEntry& e) {
  a.required("model", e.model);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.required("ranks", e.ranks);
  a.required("bytes", e.bytes);
  a.required("compute_slowdown", e.compute_slowdown);
  a.required("collective_slowdown", e.collective_slowdown);
}

template <typename Archive>
void describe(Archive& a, LaunchCosts& e) {
  a.optional("launch_s", e.launch);
  a.optional("latency_s", e.latency);
  a.optional("gap_s", e.gap);
  a.optional("event_record_s", e.event_record);
  a.optional("event_gap_s", e.event_gap);
  a.optional("event_wait_s", e.event_wait);
  a.optional("queue_depth", e.queue_depth);
}

template <typename Archive>
void describe(Archive& a, CopyEntry& e) {
  a.required("direction", e.direction);
  a.required("bytes", e.bytes);
  a.optional("pinned", e.pinned, true);
  a.required("time_s", e.time);
}

template <typename Archive>
void describe(Archive& a, NoiseEntry& e) {
  a.required("what", e.what);
  a.required("sigma", e.sigma);
  a.optional("tail_probability", e.tail_probability);
  a.optional("tail_factor", e.tail_factor, 1.0);
  a.check(e.sigma >= 0, "has a negative sigma");
}

template <typename Archive>
void describe(Archive& a, Machine& m) {
  a.optional("gpu", m.gpu);
  a.optional("compute_capability", m.compute_capability);
  a.optional("gpus", m.gpus);
  a.optional("multiprocessors", m.multiprocessors);
  a.optional("memory_bytes", m.memory_bytes);
  a.optional("driver", m.driver);
  a.optional("cuda_driver", m.cuda_driver);
  a.optional("cuda_runtime", m.cuda_runtime);
  a.optional("cudnn", m.cudnn);
  a.optional("cublas", m.cublas);
  a.optional("nccl", m.nccl);
  a.optional("processor", m.processor);
  a.optional("cores", m.cores);
  a.optional("virtual_machine", m.virtual_machine);
  a.optional("kernel", m.kernel);
  a.optional("link", m.link);
  a.optional("nvls", m.nvls);
  a.optional("environment", m.environment);
  a.optional("clock_before_hz", m.clock_before_hz);
  a.optional("clock_after_hz", m.clock_after_hz);
  a.optional("clock_max_hz", m.clock_max_hz);
  a.optional("throttled", m.throttled);
  a.optional("throttle_reason", m.throttle_reason);
  a.optional("temperature_before_C", m.temperature_before);
  a.optional("temperature_after_C", m.temperature_after);
}

template <typename Archive>
void describe(Archive& a, CalibrationRun& r) {
  a.required("date", r.date);
  a.required("command", r.command);
  a.required("foretrain", r.foretrain);
  a.required("machine", r.machine);
  a.optional("seconds", r.seconds);
  a.optional("complete", r.complete, true);
  a.optional("warnings", r.warnings);
}

template <typename Archive>
void describe(Archive& a, Profile& p) {
  std::string schema = Profile::schema;
  a.required("schema", schema);
  a.required("name", p.name);
  a.required("device", p.device);
  a.required("runs", p.runs);
  a.optional("operators", p.operators);
  a.optional("steps", p.steps);
  a.optional("optimizers", p.optimizers);
  a.optional("step_work", p.step_work);
  a.optional("collectives", p.collectives);
  a.optional("interference", p.interference);
  a.optional("launches", p.launches);
  a.optional("copies", p.copies);
  a.optional("noise", p.noise);
}

namespace {

SourceLocation place_of_byte(std::string_view text, std::size_t byte, const std::string& file) {
  SourceLocation where{file, 1, 1};
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    where.column = text[i] == '\n' ? 1 : where.column + 1;
    where.line += text[i] == '\n';
  }
  return where;
}

// nlohmann's messages begin with "[json.exception.parse_error.101] parse error at line 1, column 9: ".
std::string reason_of(const nlohmann::json::exception& error) {
  const std::string what = error.what();
  if (const std::size_t colon = what.find(": "); colon != std::string::npos) return what.substr(colon + 2);
  const std::size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

}  // namespace

std::string profile_to_json(const Profile& profile) {
  Profile copy = profile;  // the archives take what they describe by reference
  const auto whole = ArchiveWriter::make(copy);
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : whole.items()) {
    text += separator + nlohmann::json(key).dump() + ": ";
    separator = ",\n";
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    text += "[";
    const char* between = "\n  ";
    for (const auto& item : value) {
      text += between + item.dump();
      between = ",\n  ";
    }
    text += "\n]";
  }
  return text + "\n}\n";
}

std::optional<Profile> parse_profile(std::string_view json, const std::string& file,
                                     Diagnostics& diagnostics) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(json);
  } catch (const nlohmann::json::parse_error& error) {
    diagnostics.error(place_of_byte(json, error.byte, file), "not valid JSON: " + reason_of(error));
    return std::nullopt;
  } catch (const nlohmann::json::out_of_range& error) {
    diagnostics.error({file}, "not valid JSON: " + reason_of(error));
    return std::nullopt;
  }
  const auto schema = root.is_object() ? root.find("schema") : root.end();
  if (!root.is_object() || schema == root.end() || *schema != Profile::schema) {
    const std::string found = root.is_object() && schema != root.end() ? schema->dump() : "nothing";
    diagnostics.error({file}, fmt::format("is no profile that this program reads: \"schema\" is {} where "
                                          "\"{}\" belongs",
                                          found, Profile::schema));
    return std::nullopt;
  }
  Profile profile;
  Diagnostics inner;
  ArchiveReader(root, file, inner).read(profile);
  diagnostics.merge(inner);
  if (!inner.ok()) return std::nullopt;
  return profile;
}

std::optional<Profile> read_profile(const std::filesystem::path& path, Diagnostics& diagnostics) {
  try {
    return parse_profile(read_possibly_compressed(path), path.string(), diagnostics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    for (const Diagnostic& finding : error.diagnostics()) diagnostics.error(finding.where, finding.what);
    return std::nullopt;
  }
}

void write_profile(const Profile& profile, const std::filesystem::path& path) {
  write_file(path.string(), profile_to_json(profile));
}

}  // namespace foretrain

#include "execute/run_record_json.hpp"

#include <algorithm>
#include <charconv>

#include "sim/input/gunzip.hpp"
#include "sim/input/json_archive.hpp"
#include "sim/input/json_object.hpp"
#include "sim/input/machine_archive.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain {
namespace {

bool none_negative(const std::vector<double>& values) {
  return std::none_of(values.begin(), values.end(), [](double value) { return value < 0; });
}

// 64 bits do not fit a JSON number that every reader keeps, so the checksum is 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t number) {
  return number == 0 ? "" : fmt::format("{:016x}", number);
}

bool from_hexadecimal(const std::string& text, std::uint64_t& number) {
  number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return text.empty() || (error == std::errc() && end == text.data() + text.size());
}

}  // namespace

// The members of each part, for both directions. They stand in the namespace of the structs, where the
// archives find them.

template <typename Archive>
void describe(Archive& a, BucketTiming& b) {
  a.required("bytes", b.bytes);
  a.required("collective", b.collective);
  a.optional("ready_s", b.ready);
  a.optional("finished_s", b.finished);
  a.check(b.bytes >= 0 && none_negative(b.ready) && none_negative(b.finished), "has a negative value");
}

template <typename Archive>
void describe(Archive& a, RankRecord& r) {
  a.required("rank", r.rank);
  a.optional("node", r.node);
  a.optional("host", r.host);
  a.optional("gpu", r.gpu);
  a.optional("step_s", r.step);
  a.optional("step_host_s", r.step_host);
  a.optional("forward_s", r.forward);
  a.optional("backward_s", r.backward);
  a.optional("exposed_communication_s", r.exposed_communication);
  a.optional("optimizer_s", r.optimizer);
  a.optional("buckets", r.buckets);
  a.optional("useful_units", r.useful_units);
  a.optional("padded_units", r.padded_units);
  a.optional("warmup_s", r.warmup);
  a.optional("peak_bytes", r.peak_bytes);
  a.optional("launches", r.launches);
  std::string checksum = hexadecimal(r.checksum);
  a.optional("checksum", checksum);
  a.optional("first_loss", r.first_loss);
  a.optional("last_loss", r.last_loss);
  a.optional("loss", r.loss);
  a.check(from_hexadecimal(checksum, r.checksum), "has a checksum that is no hexadecimal number");
  a.check(r.rank >= 0 && r.node >= 0, "has a negative place");
  a.check(none_negative(r.step) && none_negative(r.step_host) && none_negative(r.warmup),
          "has a negative time");
  a.check(r.step.empty() || r.step_host.empty() || r.step.size() == r.step_host.size(),
          "has step_s and step_host_s of unequal length");
}

template <typename Archive>
void describe(Archive& a, MonitorSeries& s) {
  a.required("what", s.what);
  a.required("unit", s.unit);
  a.optional("node", s.node);
  a.optional("device", s.device, -1);
  a.required("time_s", s.time);
  a.required("value", s.value);
  a.check(s.time.size() == s.value.size(), "has unequal numbers of times and values");
}

template <typename Archive>
void describe(Archive& a, ClockRecord& c) {
  a.optional("node", c.node);
  a.required("device", c.device);
  a.required("samples", c.samples);
  a.required("sm_hz", c.sm_hz);
  a.optional("sm_low_hz", c.sm_low_hz);
  a.optional("sm_max_hz", c.sm_max_hz);
  a.optional("power_W", c.power_watts);
  a.optional("temperature_C", c.temperature);
  a.optional("throttled", c.throttled);
  a.optional("throttle_reasons", c.throttle_reasons);
  a.check(c.samples >= 0 && c.sm_hz >= 0, "has a negative count or clock");
  a.check(c.throttled >= 0 && c.throttled <= 1, "has a fraction outside of 0 to 1");
}

template <typename Archive>
void describe(Archive& a, MonitorFinding& f) {
  a.required("time_s", f.time);
  a.required("what", f.what);
  a.optional("cause", f.cause);
  a.optional("text", f.text);
}

template <typename Archive>
void describe(Archive& a, RunEvent& e) {
  a.required("what", e.what);
  a.required("begin_s", e.begin);
  a.required("end_s", e.end);
  a.optional("step", e.step);
  a.optional("batch", e.batch);
  a.optional("workers", e.workers);
  a.optional("bytes", e.bytes);
  a.optional("phase", e.phase, -1);
  a.optional("loss", e.loss);
}

template <typename Archive>
void describe(Archive& a, NoiseLook& n) {
  a.required("update", n.update);
  a.required("gradient_squared", n.gradient_squared);
  a.required("trace", n.trace);
}

template <typename Archive>
void describe(Archive& a, SequencesRecord& s) {
  a.required("batching", s.batching);
  a.required("padding", s.padding);
  a.required("useful_units_per_s", s.useful_per_second);
  a.required("padded_units_per_s", s.padded_per_second);
  a.optional("waiting_s", s.waiting);
  a.check(s.padding >= 0 && s.padding < 1, "has a padding outside of 0 to 1");
  a.check(s.waiting >= 0 && s.useful_per_second >= 0, "has a negative value");
}

template <typename Archive>
void describe(Archive& a, PredictionBefore& p) {
  a.required("time", p.time);
  a.optional("digest", p.digest);
  a.required("step_s", p.step);
  a.required("low_s", p.low);
  a.required("high_s", p.high);
  a.optional("one_worker_step_s", p.one_worker_step);
  a.optional("peak_bytes", p.peak_bytes);
  a.optional("distance", p.distance);
  a.optional("json", p.json);
  a.check(p.step > 0, "has a step that is not positive");
  a.check(p.low <= p.step && p.step <= p.high, "does not hold its step between its bounds");
}

template <typename Archive>
void describe(Archive& a, ParameterRecord& p) {
  a.required("name", p.name);
  a.required("shape", p.shape);
  a.optional("element", p.element);
}

template <typename Archive>
void describe(Archive& a, RunRecord& r) {
  std::string schema = RunRecord::schema;
  a.required("schema", schema);
  a.optional("complete", r.complete, true);
  a.required("source", r.source);
  a.required("date", r.date);
  a.optional("command", r.command);
  a.optional("foretrain", r.foretrain);
  a.optional("scenario_name", r.scenario_name);
  a.optional("scenario_yaml", r.scenario_yaml);
  a.optional("scenario_file", r.scenario_file);
  a.optional("overrides", r.overrides);
  a.optional("group", r.group);
  a.optional("repeat", r.repeat);
  a.required("model", r.model);
  a.required("precision", r.precision);
  a.optional("strategy", r.strategy);
  a.required("batch_per_worker", r.batch_per_worker);
  a.optional("sequence", r.sequence);
  a.required("workers", r.workers);
  a.optional("nodes", r.nodes, 1);
  a.optional("network", r.network);
  a.optional("line_rate_Bps", r.line_rate);
  a.optional("warmup_steps", r.warmup_steps);
  a.optional("soak_s", r.soak);
  a.optional("resumed_after", r.resumed_after);
  a.optional("phase_every", r.phase_every, 1);
  a.optional("profile_digest", r.profile_digest);
  a.optional("profile_names", r.profile_names);
  a.optional("prediction", r.prediction);
  a.optional("parameters", r.parameters);
  a.optional("versions", r.versions);
  a.optional("machine", r.machine);
  a.required("ranks", r.ranks);
  a.optional("events", r.events);
  a.optional("noise_looks", r.noise_looks);
  a.optional("sequences", r.sequences);
  a.optional("monitor", r.monitor);
  a.optional("monitor_cost", r.monitor_cost);
  a.optional("clocks", r.clocks);
  a.optional("findings", r.findings);
  a.check(r.batch_per_worker > 0 && r.workers > 0 && r.nodes > 0, "has a count below 1");
  a.check(r.line_rate >= 0, "has a negative line rate");
  a.check(r.phase_every > 0, "has phase_every below 1");
  a.check(r.soak >= 0 && r.resumed_after >= 0, "has a negative soak_s or resumed_after");
}

std::string run_record_to_json(const RunRecord& record) {
  RunRecord copy = record;  // the archives take what they describe by reference
  return json_by_lines(ArchiveWriter::make(copy));
}

std::optional<RunRecord> parse_run_record(std::string_view json, const std::string& file,
                                          Diagnostics& diagnostics) {
  const auto root = parse_json_object(json, file, {"run record", RunRecord::schema}, diagnostics);
  if (!root) return std::nullopt;
  RunRecord record;
  Diagnostics inner;
  ArchiveReader(*root, file, inner).read(record);
  diagnostics.merge(inner);
  if (!inner.ok()) return std::nullopt;
  return record;
}

std::optional<RunRecord> read_run_record(const std::filesystem::path& path, Diagnostics& diagnostics) {
  try {
    return parse_run_record(read_possibly_compressed(path), path.string(), diagnostics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    for (const Diagnostic& finding : error.diagnostics()) diagnostics.error(finding.where, finding.what);
    return std::nullopt;
  }
}

void write_run_record(const RunRecord& record, const std::filesystem::path& path) {
  write_file(path.string(), run_record_to_json(record));
}

}  // namespace foretrain

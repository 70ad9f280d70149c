#include "sim/input/profile_json.hpp"

#include <algorithm>

#include "sim/base/parse_units.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/input/json_archive.hpp"
#include "sim/input/json_object.hpp"
#include "sim/input/machine_archive.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain {

// The members of each part, for both directions. They stand in the namespace of the structs, where the
// archives find them.

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
  a.optional("sequence", e.sequence);
  a.required("passes", e.passes);
  a.optional("workspace_bytes", e.workspace_bytes);
  a.check(e.batch > 0, "has a batch below 1");
}

template <typename Archive>
void describe(Archive& a, StepEntry& e) {
  a.required("model", e.model);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.optional("sequence", e.sequence);
  a.required("step_s", e.step);
  a.optional("p05_s", e.p05);
  a.optional("p95_s", e.p95);
  a.optional("peak_bytes", e.peak_bytes);
  a.optional("workspace_bytes", e.workspace_bytes);
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
  a.optional("sequence", e.sequence);
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
  a.optional("sequence", e.sequence);
  a.required("ranks", e.ranks);
  a.optional("nodes", e.nodes, 1);
  a.optional("network", e.network);
  a.optional("line_rate_Bps", e.line_rate);
  a.required("bytes", e.bytes);
  a.required("compute_slowdown", e.compute_slowdown);
  a.required("collective_slowdown", e.collective_slowdown);
}

template <typename Archive>
void describe(Archive& a, OverlapEntry& e) {
  a.required("model", e.model);
  a.required("precision", e.precision);
  a.required("batch", e.batch);
  a.optional("sequence", e.sequence);
  a.required("ranks", e.ranks);
  a.required("buckets", e.buckets);
  a.required("step_s", e.step);
  a.required("alone_s", e.alone);
  a.optional("one_s", e.one);
  a.optional("p05_s", e.p05);
  a.optional("p95_s", e.p95);
  a.optional("interference_scale", e.interference_scale, -1.0);
  a.optional("collective_wait_s", e.collective_wait);
  a.optional("connected_first", e.connected_first, false);
  a.check(e.batch > 0 && e.ranks > 0, "has a count below 1");
  constexpr double most_steps = 100;  // what was fitted is below the step as it was simulated
  a.check(e.collective_wait >= 0 && e.collective_wait <= most_steps * e.step.median,
          "has a collective_wait_s below 0 or far beyond its step");
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
  a.optional("model", e.model);
  a.optional("precision", e.precision, Precision::fp32);
  a.optional("batch", e.batch);
  a.optional("sequence", e.sequence);
  a.required("sigma", e.sigma);
  a.optional("tail_probability", e.tail_probability);
  a.optional("tail_factor", e.tail_factor, 1.0);
  a.check(e.sigma >= 0, "has a negative sigma");
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
  a.optional("overlaps", p.overlaps);
  a.optional("launches", p.launches);
  a.optional("copies", p.copies);
  a.optional("noise", p.noise);
}

std::string profile_to_json(const Profile& profile) {
  Profile copy = profile;  // the archives take what they describe by reference
  return json_by_lines(ArchiveWriter::make(copy));
}

namespace {

// The text of a member that stands once in an object, with a text as its value.
std::optional<std::string_view> member_text(std::string_view object, std::string_view key_and_quote) {
  const std::size_t place = object.find(key_and_quote);
  if (place == std::string_view::npos || object.find(key_and_quote, place + 1) != std::string_view::npos)
    return std::nullopt;
  const std::string_view value = object.substr(place + key_and_quote.size());
  return value.substr(0, value.find('"'));
}

// The bytes of an operator that is of another use; 0 where it is of this one or where that cannot be told
// without reading it.
std::size_t size_of_other(std::string_view rest, const OperatorUse& use) {
  const std::size_t end = rest.find('}');
  if (end == std::string_view::npos || rest[0] != '{') return 0;
  const std::string_view element = rest.substr(0, end + 1);
  const auto context = member_text(element, "\"context\":\""),
             precision = member_text(element, "\"precision\":\"");
  if (!context || !precision || (*context == use.model && *precision == name_of(use.precision))) return 0;
  // Without objects and escapes within, the brace is its end unless it stands in quotes.
  const bool is_flat = element.find('{', 1) == std::string_view::npos &&
                       element.find('\\') == std::string_view::npos &&
                       std::count(element.begin(), element.end(), '"') % 2 == 0;
  return is_flat ? element.size() : 0;
}

}  // namespace

std::optional<Profile> parse_profile(std::string_view json, const std::string& file, Diagnostics& diagnostics,
                                     const std::optional<OperatorUse>& use) {
  // Operators are nearly all of a profile: each is taken as it is read, so that the tree stays small.
  constexpr std::size_t fewest_bytes =
      400;  // of an operator in a file: room for all, of which no more is used
  std::vector<OperatorEntry> operators;
  operators.reserve(json.size() / fewest_bytes);
  Diagnostics inner;
  const auto take = [&](std::string_view member, std::size_t index, const JsonNode& element) {
    if (member != "operators") return false;
    BasicArchiveReader<JsonNode>::read_element(element, "operators", index, operators.emplace_back(), file,
                                               inner);
    return true;
  };
  JsonTree::Skipper skip;
  if (use) {
    skip = [&](std::string_view member, std::string_view rest) {
      return member == "operators" && !rest.empty() ? size_of_other(rest, *use) : 0;
    };
  }
  const auto tree = JsonTree::parse(json, file, diagnostics, take, skip);
  if (!tree) return std::nullopt;
  const JsonNode* schema = tree->root().find("schema");
  if (schema == nullptr || schema->text() != Profile::schema) {
    const std::string found =
        schema == nullptr || !schema->is_string() ? "nothing" : fmt::format("\"{}\"", schema->text());
    diagnostics.error({file}, fmt::format("is no profile that this program reads: \"schema\" is {} where "
                                          "\"{}\" belongs",
                                          found, Profile::schema));
    return std::nullopt;
  }
  Profile profile;
  BasicArchiveReader<JsonNode>(tree->root(), file, inner).read(profile);
  profile.operators = std::move(operators);
  // Profiles of before 2026-11-29 do not have rates that were written as tc writes them.
  for (CollectiveEntry& entry : profile.collectives) {
    if (entry.nodes < 2 || entry.line_rate > 0) continue;
    if (const auto rate = rate_named_in(entry.network)) entry.line_rate = rate->bytes_per_second();
  }
  diagnostics.merge(inner);
  if (!inner.ok()) return std::nullopt;
  return profile;
}

std::optional<Profile> read_profile(const std::filesystem::path& path, Diagnostics& diagnostics,
                                    const std::optional<OperatorUse>& use) {
  try {
    auto profile = parse_profile(read_possibly_compressed(path), path.string(), diagnostics, use);
    if (profile) profile->name = data_name(path);  // messages call it as a scenario does
    return profile;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    diagnostics.add(error);
    return std::nullopt;
  }
}

void write_profile(const Profile& profile, const std::filesystem::path& path) {
  write_file(path.string(), profile_to_json(profile));
}

}  // namespace foretrain

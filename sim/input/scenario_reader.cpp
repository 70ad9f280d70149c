#include "sim/input/scenario_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/parse_units.hpp"
#include "sim/input/document.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/job_reader.hpp"
#include "sim/input/job_schema.hpp"
#include "sim/input/model_reader.hpp"
#include "sim/input/model_schema.hpp"
#include "sim/input/optimizer_reader.hpp"
#include "sim/input/overrides.hpp"
#include "sim/input/profile_entry.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/input/resolved_inputs.hpp"
#include "sim/input/scalars.hpp"
#include "sim/input/scenario_schema.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/input/strategy_reader.hpp"
#include "sim/input/strategy_schema.hpp"
#include "sim/input/topology_reader.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/input/workload_json.hpp"
#include "sim/network/changes.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/training/crowding.hpp"
#include "sim/training/gpu_types.hpp"

namespace foretrain {
namespace {

class Reader {
 public:
  // `ranks`: those of another job's workers, where its scenario is read; else all that others leave.
  Reader(const Value& root, const Catalog& catalog, Diagnostics& diagnostics, const Value* ranks = nullptr)
      : root_(root),
        fields_(&root, scenario_schema()),
        catalog_(catalog),
        diagnostics_(diagnostics),
        ranks_(ranks) {}

  Scenario read() {
    check_map(root_, scenario_schema(), diagnostics_);
    if (fields_.has("workload")) {
      read_workload();
    } else {
      read_what_is_trained();
    }
    read_cluster();
    divide_cluster();
    read_strategy();
    read_optimizer();
    read_job();
    read_batch();
    read_surroundings();
    read_sequence();
    read_execution();
    check_parts();
    read_others();
    add_inputs();
    return std::move(scenario_);
  }

 private:
  void read_what_is_trained() {
    read_model();
    scenario_.precision = word_of(fields_.text("precision"),
                                  {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16});
    read_profile();
  }

  // A job as a trace shows it: what it is, its times and its batch. A profile beside it adds what the trace
  // of one GPU does not know: collectives, and what they cost kernels.
  void read_workload() {
    for (const char* key : {"model", "precision", "batch", "sequence"}) {
      if (fields_.has(key))
        diagnostics_.error(fields_.where(key),
                           fmt::format("{}: stands beside workload, which has its own", key));
    }
    if (fields_.fields("job").has("schedule"))
      diagnostics_.error(fields_.where("workload"),
                         "workload: has times of one batch; job.schedule has batches of its own");
    const Value* entry = fields_.find("workload");
    if (!entry->is_scalar() || entry->text.empty()) return;
    const auto path = catalog_.resolve(DataKind::profile, entry->text, entry->where(), diagnostics_);
    std::optional<Workload> workload = path ? foretrain::read_workload(*path, diagnostics_) : std::nullopt;
    if (!workload) return;
    scenario_.precision = workload->precision;
    scenario_.batch_per_worker = workload->batch;
    scenario_.profile_names = {data_name(*path)};
    if (const Value* beside = fields_.find("profile"); beside != nullptr && !beside->is_null()) {
      const ProfileChoice choice = read_profile_entry(*beside, catalog_, diagnostics_);
      if (choice.step_times)
        diagnostics_.error(beside->where(),
                           "profile: beside a workload stand measured profiles, not step times");
      if (choice.profile) {
        const std::string traced = device_of(workload->profile), other = device_of(*choice.profile);
        if (!choice.profile->operators.empty() && !traced.empty() && !other.empty() && traced != other)
          diagnostics_.warning(
              beside->where(),
              fmt::format("profile: is of {}, the workload was traced on {}: collectives, and "
                          "what they cost kernels, are those of the former",
                          other, traced));
        take_network_of(*choice.profile, workload->profile);
      }
      scenario_.profile_names.insert(scenario_.profile_names.end(), choice.names.begin(), choice.names.end());
    }
    scenario_.model = std::make_shared<const Model>(std::move(workload->model));
    scenario_.profile = std::make_shared<const Profile>(std::move(workload->profile));
  }

  // The trace's own collectives win.
  static void take_network_of(const Profile& other, Profile& own) {
    std::vector<CollectiveEntry> collectives = other.collectives;
    collectives.insert(collectives.end(), own.collectives.begin(), own.collectives.end());
    own.collectives = std::move(collectives);
    own.interference.insert(own.interference.end(), other.interference.begin(), other.interference.end());
    if (other.runs.empty() || own.runs.empty()) return;
    const Machine& machine = other.runs.front().machine;
    own.runs.front().machine.compute_capability = machine.compute_capability;
    own.runs.front().machine.processor = machine.processor;
  }

  void read_model() {
    const Value* model = fields_.find("model");
    if (model == nullptr) return;
    std::optional<std::int64_t> sequence = fields_.integer("sequence");
    std::shared_ptr<SequenceLengths> lengths;
    if (const Value* map = fields_.find("sequence"); map != nullptr && map->is_map()) {
      lengths = read_sequence_lengths(*map, diagnostics_);
      if (lengths) sequence = lengths->longest();
    }
    std::optional<Value> described;
    if (model->is_map()) {
      described = *model;
      scenario_.model = foretrain::read_model(*model, diagnostics_, sequence);
    } else if (model->is_scalar() && !model->text.empty()) {
      const auto path = catalog_.resolve(DataKind::model, model->text, model->where(), diagnostics_);
      if (!path) return;
      ProfileCache* const cache = lengths ? nullptr : catalog_.profile_cache();
      const ProfileCache::ModelKey key{path->string(), sequence};
      if (cache != nullptr) scenario_.model = cache->find_model(key);
      if (scenario_.model) return;
      Diagnostics own;
      described = read_document(*path, own);
      if (described && refuse_other_kind(*described, FileKind::model, own)) described.reset();
      if (described) scenario_.model = foretrain::read_model(*described, own, sequence);
      diagnostics_.merge(own);
      // What is said of a model is said of each scenario that has it.
      const bool is_silent = own.ok() && own.warnings().empty();
      if (cache != nullptr && is_silent && scenario_.model)
        scenario_.model = cache->add_model(key, std::move(scenario_.model));
    }
    if (!lengths || !described || !scenario_.model || scenario_.model->sequence == 0) return;
    lengths->model_at = [root = *described](std::int64_t length) {
      Diagnostics none;
      return foretrain::read_model(root, none, length);
    };
    scenario_.lengths = std::move(lengths);
  }

  void read_profile() {
    const Value* entry = fields_.find("profile");
    if (entry == nullptr || entry->is_null()) return;
    std::optional<OperatorUse> use;
    if (scenario_.model) use = {scenario_.model->name, scenario_.precision};
    ProfileChoice choice = read_profile_entry(*entry, catalog_, diagnostics_, use);
    scenario_.profile = std::move(choice.profile);
    scenario_.step_times = std::move(choice.step_times);
    scenario_.profile_names = std::move(choice.names);
  }

  void read_cluster() {
    const Value* cluster = fields_.find("cluster");
    if (cluster != nullptr && cluster->is_map()) {
      Value other_gpus;
      scenario_.cluster = foretrain::read_cluster(*cluster, catalog_, diagnostics_, &other_gpus);
      if (other_gpus.kind == ValueKind::sequence) read_gpu_types(other_gpus);
    }
  }

  void read_gpu_types(const Value& list) {
    const auto workers = static_cast<std::int64_t>(scenario_.cluster.topology.workers.size());
    if (workers == 0) return;
    if (scenario_.step_times) {
      diagnostics_.error(list.where(),
                         "other_gpus: a step-time profile knows one type of GPU; 'slow_gpus' takes a factor");
      return;
    }
    GpuTypes types;
    types.of_worker.assign(static_cast<std::size_t>(workers), 0);
    std::optional<OperatorUse> use;
    if (scenario_.model) use = {scenario_.model->name, scenario_.precision};
    for (const Value& item : list.items) {
      const Fields fields(&item, other_gpus_schema());
      const Value* profile = fields.find("profile");
      if (profile == nullptr || !item.is_map()) continue;
      const std::int64_t from = fields.integer("from").value_or(0), to = fields.integer("to").value_or(from);
      if (from < 0 || to < from || to >= workers) {
        diagnostics_.error(
            item.where(),
            fmt::format("other_gpus: ranks {} to {} are not within the {} workers of the cluster", from, to,
                        workers));
        continue;
      }
      const ProfileChoice choice = read_profile_entry(*profile, catalog_, diagnostics_, use);
      if (choice.step_times) {
        diagnostics_.error(profile->where(),
                           "other_gpus: a step-time profile does not say what each kernel takes");
      }
      if (!choice.profile) continue;
      const auto first = types.of_worker.begin() + from;
      if (std::any_of(first, types.of_worker.begin() + to + 1, [](int type) { return type != 0; })) {
        diagnostics_.error(item.where(), fmt::format("other_gpus: ranks {} to {} stand in a range before: a "
                                                     "worker is on one type of GPU",
                                                     from, to));
        continue;
      }
      types.profiles.push_back(choice.profile);
      std::fill(types.of_worker.begin() + from, types.of_worker.begin() + to + 1,
                static_cast<int>(types.profiles.size()));
    }
    scenario_.gpu_types = std::make_shared<const GpuTypes>(std::move(types));
  }

  // Takes ranks out of those that are free and gives them to `taken`.
  void take_ranks(const Value& gpus, std::vector<bool>& free, std::vector<bool>& taken) {
    const Fields fields(&gpus, ranks_schema());
    const std::int64_t from = fields.integer("from").value_or(0), to = fields.integer("to").value_or(from),
                       every = std::max<std::int64_t>(1, fields.integer("every").value_or(1));
    const auto count = static_cast<std::int64_t>(free.size());
    if (from < 0 || to < from || to >= count) {
      diagnostics_.error(gpus.where(),
                         fmt::format("gpus: ranks {} to {} are not within the {} workers of the "
                                     "cluster",
                                     from, to, count));
      return;
    }
    for (std::int64_t rank = from; rank <= to; rank += every) {
      const auto r = static_cast<std::size_t>(rank);
      if (!free[r]) {
        diagnostics_.error(gpus.where(), fmt::format("gpus: rank {} belongs to another job already", rank));
        return;
      }
      free[r] = false;
      taken[r] = true;
    }
  }

  // Each job has workers of its own.
  void divide_cluster() {
    Topology& topology = scenario_.cluster.topology;
    const Value* others = fields_.find("others");
    if (topology.workers.empty() || (ranks_ == nullptr && others == nullptr)) return;
    std::vector<bool> free(topology.workers.size(), true), taken(topology.workers.size(), false);
    if (ranks_ != nullptr) {
      take_ranks(*ranks_, free, taken);
    } else {
      for (const Value& other : others->items) {
        if (const Value* gpus = other.find("gpus"); gpus != nullptr && gpus->is_map()) {
          take_ranks(*gpus, free, taken);
        }
      }
      taken.swap(free);
    }
    if (std::find(taken.begin(), taken.end(), true) == taken.end()) {
      if (others != nullptr) diagnostics_.error(others->where(), "others: they leave this job no workers");
      return;
    }
    keep_workers(topology, taken);
    if (!scenario_.gpu_types) return;
    GpuTypes types{scenario_.gpu_types->profiles, {}};
    for (std::size_t rank = 0; rank < taken.size(); ++rank) {
      if (taken[rank]) types.of_worker.push_back(scenario_.gpu_types->of(rank));
    }
    scenario_.gpu_types = std::make_shared<const GpuTypes>(std::move(types));
  }

  // Each is this scenario with its own keys and workers.
  void read_others() {
    const Value* others = fields_.find("others");
    if (others == nullptr || !diagnostics_.ok()) return;
    for (const Value& other : others->items) {
      const Value* gpus = other.find("gpus");
      if (gpus == nullptr) continue;
      Value root = root_;
      std::erase_if(root.members, [&](const Member& member) {
        static const std::vector<std::string> own{"others", "job",      "dataset",  "input",
                                                  "host",   "observed", "optimizer"};
        return std::find(own.begin(), own.end(), member.key) != own.end() ||
               other.find(member.key) != nullptr;
      });
      for (const Member& member : other.members) {
        if (member.key != "gpus") root.members.push_back(member);
      }
      scenario_.others.push_back(
          std::make_shared<const Scenario>(Reader(root, catalog_, diagnostics_, gpus).read()));
    }
  }

  void read_strategy() {
    const Value* strategy = fields_.find("strategy");
    data_ = strategy != nullptr && strategy->is_map() ? strategy : nullptr;
    if (data_ != nullptr && data_->find("data") != nullptr) {
      for (const Member& member : data_->members) {
        if (data_parallel_schema().find(member.key) == nullptr) continue;
        diagnostics_.error(member.where, fmt::format("'{}' stands beside 'data': put it within", member.key));
      }
      Value rest = *data_;
      std::erase_if(rest.members,
                    [](const Member& member) { return data_parallel_schema().find(member.key) != nullptr; });
      check_map(rest, strategy_schema(), diagnostics_);
      data_ = strategy->find("data");
      if (!data_->is_map()) data_ = nullptr;
    } else if (data_ != nullptr) {
      check_map(*data_, data_parallel_schema(), diagnostics_);
    }
    const auto workers = static_cast<std::int64_t>(scenario_.cluster.topology.workers.size());
    scenario_.strategy = foretrain::read_strategy(data_, workers, diagnostics_);
  }

  void read_optimizer() {
    if (scenario_.model) scenario_.optimizer = scenario_.model->optimizer;
    const Value* optimizer = fields_.find("optimizer");
    if (optimizer == nullptr || !optimizer->is_map()) return;
    scenario_.optimizer = foretrain::read_optimizer(*optimizer, scenario_.optimizer, diagnostics_);
  }

  void read_job() {
    if (const auto samples = fields_.fields("dataset").integer("samples"); samples && *samples > 0) {
      scenario_.dataset_samples = samples;
    }
    if (!fields_.has("job")) return;
    const auto workers = static_cast<int>(scenario_.cluster.topology.workers.size());
    Job made = foretrain::read_job(fields_.fields("job"), {scenario_.dataset_samples.value_or(0), workers, 0},
                                   diagnostics_);
    made.baseline = read_baseline(fields_.fields("job"));
    scenario_.job = std::make_shared<const Job>(std::move(made));
    if (!fields_.has("dataset")) {
      diagnostics_.error(fields_.where("job"),
                         "job needs the size of an epoch: add 'dataset: { samples: N }'");
    }
  }

  // Another scenario, or this one with other keys of its job.
  std::shared_ptr<const Scenario> read_baseline(const Fields& job) {
    const Value* baseline = job.find("baseline");
    if (baseline == nullptr || baseline->is_null()) return nullptr;
    std::optional<Value> root;
    std::string name;
    if (baseline->is_map()) {
      root = root_;
      for (Member& member : root->members) {
        if (member.key != "job" || !member.value.is_map()) continue;
        std::erase_if(member.value.members, [&](const Member& each) {
          return each.key == "baseline" || baseline->find(each.key) != nullptr;
        });
        member.value.members.insert(member.value.members.end(), baseline->members.begin(),
                                    baseline->members.end());
      }
      name = "the same job with other keys";
    } else if (baseline->is_scalar() && !baseline->text.empty()) {
      const auto path = catalog_.resolve(DataKind::scenario, baseline->text, baseline->where(), diagnostics_);
      if (!path) return nullptr;
      root = read_document(*path, diagnostics_);
      if (!root || !root->is_map()) return nullptr;
      for (Member& member : root->members) {
        if (member.key != "job") continue;
        std::erase_if(member.value.members, [](const Member& each) { return each.key == "baseline"; });
      }
      name = data_name(*path);
    }
    if (!root) return nullptr;
    Scenario made = Reader(*root, catalog_, diagnostics_).read();
    made.name = name;
    if (!made.job) {
      diagnostics_.error(baseline->where(), "baseline: the scenario has no job");
      return nullptr;
    }
    return std::make_shared<const Scenario>(std::move(made));
  }

  void read_surroundings() {
    if (fields_.has("input")) {
      scenario_.input =
          std::make_shared<const InputPipeline>(read_input(fields_.fields("input"), diagnostics_));
    }
    if (fields_.has("host")) {
      scenario_.host = std::make_shared<const HostDescription>(read_host(fields_.fields("host")));
    }
    if (fields_.has("observed")) {
      scenario_.observed =
          std::make_shared<const Observed>(read_observed(fields_.fields("observed"), diagnostics_));
    }
  }

  void read_batch() {
    if (fields_.has("workload")) {
      scenario_.batch_global =
          scenario_.batch_per_worker * static_cast<std::int64_t>(scenario_.cluster.topology.workers.size());
      return;
    }
    const Value* map = fields_.find("batch");
    const bool has_schedule = fields_.fields("job").has("schedule");
    if (map == nullptr) {
      if (!has_schedule) {
        diagnostics_.error(root_.where(),
                           "scenario has no 'batch', which is required (samples of a step), as "
                           "in 'batch: { per_worker: 64 }'");
      } else {
        set_first_batch();
        check_micro_batches();
      }
      return;
    }
    if (has_schedule) {
      diagnostics_.error(fields_.where("batch"), "batch: stands beside job.schedule, which gives the batch");
    }
    if (!map->is_map()) return;
    const Fields batch = fields_.fields("batch");
    if (batch.has("per_worker") == batch.has("global")) {
      diagnostics_.error(map->where(), batch.has("global")
                                           ? "batch: 'per_worker' and 'global' stand side by side: give one"
                                           : "batch: has neither 'per_worker' nor 'global': give one");
      return;
    }
    const auto workers = static_cast<std::int64_t>(scenario_.cluster.topology.workers.size());
    if (workers == 0) return;  // the cluster's error is reported already
    const auto per_worker = batch.integer("per_worker"), global = batch.integer("global");
    if (per_worker && *per_worker >= 1 && *per_worker <= 1'000'000'000) {
      scenario_.batch_per_worker = *per_worker;
      scenario_.batch_global = *per_worker * workers;
    }
    if (global && *global >= 1) set_global(*global, workers, batch.where("global"));
    check_dataset(batch.where(per_worker ? "per_worker" : "global"));
    const int micro = scenario_.strategy.accumulation;
    if (scenario_.batch_per_worker % micro != 0) {
      diagnostics_.error(
          Fields(data_, data_parallel_schema()).where("accumulation"),
          fmt::format("accumulation: a batch of {} per worker does not divide into {} micro-batches",
                      scenario_.batch_per_worker, micro));
    }
  }

  // Of the schedule. A batch that does not divide evenly: the largest share.
  void set_first_batch() {
    const int available = static_cast<int>(scenario_.cluster.topology.workers.size());
    if (!scenario_.job || !scenario_.job->schedule || available == 0) return;
    const Schedule& schedule = *scenario_.job->schedule;
    const bool has_phases = !schedule.phases.empty();
    scenario_.batch_global =
        std::max<std::int64_t>(1, has_phases ? schedule.phases[0].batch : schedule.batch);
    const int workers = has_phases && schedule.phases[0].workers
                            ? *schedule.phases[0].workers
                            : workers_for(scenario_.job->workers, scenario_.batch_global, available);
    scenario_.batch_per_worker = share_of(scenario_.batch_global, workers);
  }

  // Each phase's share of the batch divides into the micro-batches.
  void check_micro_batches() {
    const int micro = scenario_.strategy.accumulation;
    if (micro < 2 || !scenario_.job || !scenario_.job->schedule) return;
    const Schedule& schedule = *scenario_.job->schedule;
    const SourceLocation where = Fields(data_, data_parallel_schema()).where("accumulation");
    if (schedule.rule != Schedule::Rule::phases) {
      diagnostics_.error(where,
                         fmt::format("accumulation: the batches of {} grow by single samples and do not "
                                     "divide into {} micro-batches",
                                     schedule.name, micro));
      return;
    }
    const int available = static_cast<int>(scenario_.cluster.topology.workers.size());
    for (std::size_t p = 0; p < schedule.phases.size() && available > 0; ++p) {
      const SchedulePhase& phase = schedule.phases[p];
      const int workers =
          phase.workers ? *phase.workers : workers_for(scenario_.job->workers, phase.batch, available);
      const std::int64_t share = share_of(phase.batch, workers);
      if (share % micro == 0) continue;
      diagnostics_.error(where,
                         fmt::format("accumulation: in phase {} of the schedule a batch of {} per worker "
                                     "does not divide into {} micro-batches",
                                     p + 1, share, micro));
      return;
    }
  }

  void set_global(std::int64_t global, std::int64_t workers, const SourceLocation& where) {
    if (global % workers != 0) {
      const std::int64_t below = global / workers * workers, above = below + workers;
      diagnostics_.error(
          where, fmt::format("global: {} samples do not divide evenly among {} workers; nearest {} {}",
                             global, workers, below > 0 ? "are" : "is",
                             below > 0 ? fmt::format("{} and {}", below, above) : fmt::format("{}", above)));
    }
    scenario_.batch_global = global;
    scenario_.batch_per_worker = global / workers;
  }

  void check_dataset(const SourceLocation& where) {
    if (!scenario_.dataset_samples || scenario_.batch_global <= *scenario_.dataset_samples) return;
    diagnostics_.error(where, fmt::format("the global batch of {} samples is above the data set of {}",
                                          scenario_.batch_global, *scenario_.dataset_samples));
  }

  void read_sequence() {
    if (!fields_.has("sequence") || !scenario_.model || scenario_.model->sequence > 0) return;
    diagnostics_.error(fields_.where("sequence"),
                       fmt::format("sequence: the model '{}' has none", scenario_.model->name));
  }

  void read_execution() {
    const Fields execution = fields_.fields("execution");
    scenario_.execution.deterministic = execution.boolean("deterministic").value_or(false);
    scenario_.execution.cuda_graph = execution.boolean("cuda_graph").value_or(false);
    if (scenario_.execution.deterministic && scenario_.strategy.fusion.kind == FusionKind::horovod) {
      diagnostics_.error(execution.where("deterministic"),
                         "deterministic: Horovod's fusion goes by time, which no two runs share: choose "
                         "another fusion, or leave one of the two out");
    }
  }

  // bcube is Gloo's. Where the profile could not be read nobody knows what the workers are.
  void check_algorithm() {
    const bool is_known = scenario_.profile || scenario_.step_times || !fields_.has("profile");
    const Topology& topology = scenario_.cluster.topology;
    if (scenario_.strategy.algorithm != "bcube" || topology.workers.empty() || !is_known) return;
    if (workers_are_cpus(topology, scenario_.profile.get())) return;
    diagnostics_.error(data_->find("algorithm")->where(),
                       "algorithm: bcube is Gloo's, by which workers that are CPUs exchange; these are GPUs, "
                       "whose NCCL has ring and tree");
  }

  // A profile of CPU workers holds for the threads that they had.
  void check_threads() {
    if (!scenario_.profile) return;
    const std::vector<int> measured = threads_of(*scenario_.profile);
    const int asked = scenario_.host ? scenario_.host->threads : 1;
    if (measured.empty() || std::find(measured.begin(), measured.end(), asked) != measured.end()) return;
    const Fields host = fields_.fields("host");
    diagnostics_.warning(
        host.has("threads") ? host.where("threads") : root_.where(),
        fmt::format("host.threads: {}, but the profile measured workers of {} thread{}, as which they are "
                    "predicted: calibrate with --threads {}",
                    asked, measured.front(), measured.front() == 1 ? "" : "s", asked));
  }

  // Families of CPU workers exchange by Gloo, whatever the profile is of.
  void check_device() {
    const Topology& topology = scenario_.cluster.topology;
    if (!scenario_.profile || scenario_.profile->device != "cuda" || topology.workers.empty()) return;
    if (!workers_are_cpus(topology, nullptr) || topology.workers.size() < 2) return;
    diagnostics_.warning(
        fields_.where("cluster"),
        fmt::format(
            "cluster: the workers of '{}' are CPUs and exchange by Gloo, the profile was measured on {}: "
            "for GPUs take nvlink-node or ethernet-nodes",
            topology.name, device_of(*scenario_.profile)));
  }

  // A model beside step times has gradients of its own.
  void check_gradients() {
    if (!scenario_.step_times || scenario_.step_times->gradient_bytes <= 0 || !scenario_.model) return;
    constexpr double element = 4, agreement = 0.05;
    const double given = scenario_.step_times->gradient_bytes,
                 own = element * static_cast<double>(scenario_.model->parameter_count());
    if (std::abs(given - own) <= agreement * own) return;
    diagnostics_.warning(
        fields_.where("profile"),
        fmt::format("profile.gradients: {} beside the model '{}', whose gradients of {} are taken",
                    format_bytes(given), scenario_.model->name, format_bytes(own)));
  }

  // What must stand together. A part that was wrong in itself is not reported as missing.
  void check_parts() {
    check_algorithm();
    check_threads();
    check_device();
    check_gradients();
    if (fields_.has("workload")) {
      const bool has_gradients = scenario_.model && !scenario_.model->parameters.empty();
      if (scenario_.model && !has_gradients && scenario_.cluster.topology.workers.size() > 1 &&
          scenario_.strategy.kind != StrategyKind::independent)
        diagnostics_.error(
            fields_.where("workload"),
            "workload: its trace has no gradients (record_shapes=True): only one worker can be simulated");
      return;
    }
    if (!fields_.has("profile")) {
      diagnostics_.error(root_.where(),
                         "scenario has no 'profile', which is required (measured times), as in "
                         "'profile: h100'");
    }
    const bool needs_model = !scenario_.step_times;
    const auto workers = scenario_.cluster.topology.workers.size();
    if (!fields_.has("model") && needs_model) {
      diagnostics_.error(
          root_.where(),
          "scenario has no 'model', which is required (what is trained), as in 'model: resnet50'");
    } else if (!fields_.has("model") && workers > 1 && scenario_.step_times->gradient_bytes == 0 &&
               scenario_.strategy.kind != StrategyKind::independent) {
      diagnostics_.error(fields_.where("profile"),
                         fmt::format("a step-time profile with {} workers needs a model or the size of its "
                                     "gradients, as in 'gradients: 94 MB'",
                                     workers));
    }
    if (scenario_.model && !scenario_.model->is_graph() && scenario_.profile) {
      diagnostics_.error(fields_.where("model"),
                         "model: a mere list of parameters stands beside a step-time profile; a measured "
                         "profile needs its layers");
    }
  }

  void add_inputs() {
    std::vector<ResolvedInput>& inputs = scenario_.inputs;
    for (const KeySpec& key : scenario_schema().keys) {
      const Value* value = fields_.find(key.name);
      if (key.name == "strategy") {
        add_strategy_inputs(data_, scenario_.strategy, inputs);
      } else if (key.name == "cluster") {
        add_cluster(value);
      } else if (key.name == "optimizer") {
        if (value != nullptr) add_given("optimizer", *value, inputs);
        if (value == nullptr || value->find("kind") == nullptr) {
          inputs.push_back({"optimizer.kind", name_of(scenario_.optimizer.kind), Origin::assumed, true});
        }
      } else if (value != nullptr && value->is_map() && key.keys != nullptr) {
        foretrain::add_inputs(key.name, value, *key.keys, inputs);
      } else if (value != nullptr) {
        add_given(key.name, *value, inputs);
        if (key.name == "workload") add_workload_inputs();
      } else if (key.name == "precision" && fields_.has("workload")) {
        continue;  // the workload's own
      } else if (key.name == "sequence") {
        if (scenario_.model && scenario_.model->sequence > 0) {
          inputs.push_back({"sequence", std::to_string(scenario_.model->sequence), Origin::assumed, true});
        }
      } else if (!key.default_value.empty()) {
        inputs.push_back({key.name, key.default_value, Origin::assumed, true});
      }
    }
    if (scenario_.step_times && scenario_.step_times->backward_fraction_origin == Origin::assumed) {
      inputs.push_back({"profile.backward_fraction",
                        fmt::format("{:.3g}", scenario_.step_times->backward_fraction), Origin::assumed,
                        true});
    }
  }

  void add_workload_inputs() {
    if (!scenario_.model) return;
    scenario_.inputs.push_back({"workload.precision", name_of(scenario_.precision), Origin::measured, false});
    scenario_.inputs.push_back(
        {"workload.batch", std::to_string(scenario_.batch_per_worker), Origin::measured, false});
  }

  // The defaults of a family are known; a file's are its own.
  void add_cluster(const Value* cluster) {
    if (cluster == nullptr) return;
    const Value* topology = cluster->find("topology");
    const Schema* family = topology == nullptr ? nullptr : find_family_schema(topology->text);
    if (family == nullptr) return add_given("cluster", *cluster, scenario_.inputs);
    foretrain::add_inputs("cluster", cluster, *family, scenario_.inputs);
  }

  const Value& root_;
  const Fields fields_;
  const Catalog& catalog_;
  Diagnostics& diagnostics_;
  const Value* ranks_;           // of another job
  const Value* data_ = nullptr;  // the map of data parallelism, in either form
  Scenario scenario_;
};

}  // namespace

std::optional<Scenario> parse_scenario(std::string_view text, const std::string& file, const Catalog& catalog,
                                       const Overrides& overrides, Diagnostics& diagnostics) {
  Diagnostics own;
  std::optional<Value> root;
  if (!refuse_other_kind(text, file, FileKind::scenario, own)) root = parse_document(text, file, own);
  std::optional<Scenario> scenario;
  if (root && !root->is_map()) {
    own.error(root->where(), fmt::format("a scenario is a map of keys, this is {}", name_of(root->kind)));
  } else if (root && !refuse_other_kind(*root, FileKind::scenario, own)) {
    apply_overrides(*root, overrides, own);
    scenario = Reader(*root, catalog, own).read();
    scenario->name = data_name(file);
    scenario->file = file;
    scenario->question = first_comment(text);
    for (const Diagnostic& hint : own.warnings()) scenario->warnings.push_back(hint.text());
  }
  diagnostics.merge(own);
  return own.ok() ? std::move(scenario) : std::nullopt;
}

Scenario read_scenario(const std::filesystem::path& file, const Catalog& catalog,
                       const Overrides& overrides) {
  Diagnostics diagnostics;
  std::optional<Scenario> scenario =
      parse_scenario(read_file_limited(file), file.string(), catalog, overrides, diagnostics);
  diagnostics.throw_errors();
  return std::move(*scenario);
}

}  // namespace foretrain

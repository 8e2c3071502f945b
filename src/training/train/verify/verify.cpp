// SPDX-License-Identifier: Apache-2.0
//
// Proves that every strategy trains like one process. The plan:
//
//   reference   one process, global batch at once: float64 and float32, with and without clipping
//   for workers = 1 .. all
//     for each strategy (deepspeed: each stage)
//       for each type, each variant (plain, accumulate, clip, both)
//         reset weights, different on each rank -> train N steps -> compare with the reference
//
// All ranks run the same loops. Ranks beyond `workers` take part in barriers only, one per step, so
// that no rank waits for longer than a step and the stall watch stays silent.
#include "training/train/verify/verify.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <numeric>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "lockstep/error.h"
#include "lockstep/sampler.h"
#include "training/comm/solo.h"
#include "training/strategy/properties.h"
#include "training/train/loop/convolution.h"
#include "training/train/options/precision.h"
#include "training/train/verify/compare.h"
#include "training/train/verify/trial_state.h"

namespace lockstep::train {
namespace {

constexpr size_t kFloat32 = 1;  // index of the types below
// A 16-bit training that differs more from float32 has failed, and proves nothing about others.
constexpr double kMaxRounding = 0.25;
constexpr std::array kTypes = {torch::kFloat64, torch::kFloat32, torch::kFloat32, torch::kFloat32};
// ZeroOptions::parameter_type of each type; float32 leaves the parameters unchanged.
constexpr std::array kParameterTypes = {
    torch::kFloat32, torch::kFloat32, torch::kBFloat16, torch::kHalf};
// Without a loss scale, small gradients would underflow in fp16.
constexpr std::array kLossScales = {1.0, 1.0, 1.0, 256.0};

// A strategy under test.
struct Tried {
  std::string name;  // after -s
  int stage = 0;     // if the strategy has ZeRO stages

  bool has_stages() const { return strategy::has(name, &strategy::Properties::has_zero_stages); }
  std::string label() const { return has_stages() ? fmt::format("{} {}", name, stage) : name; }
};

Batch as_type(const Batch& batch, torch::ScalarType type) {
  const auto convert = [type](const torch::Tensor& tensor) {
    return tensor.is_floating_point() ? tensor.to(type) : tensor;
  };
  return {convert(batch.input), convert(batch.target)};
}

// The result of the training in one process.
struct Reference {
  std::vector<torch::Tensor> values;  // in the order of moved_tensors()
  double rounding = 0;                // see TrialResult
};

// The assignment of samples to micro-batches: that of `workers` workers with `parts` micro-batches
// each.
struct Composition {
  int workers = 1;
  int parts = 1;
};

// References are computed when first needed and kept: many trials share one.
class Verification {
 public:
  Verification(SessionParts& session, const TrainerOptions& options, const Task& task)
      : session_(session),
        options_(options),
        task_(task),
        world_(*session.communicator),
        steps_(session.flags.steps.value_or(kVerifiedSteps)),
        has_batch_norm_(has_batch_norm(task.model)) {
    options_.strategy.compression = Compression::None;
    options_.strategy.horovod.reduction = "average";
    options_.strategy.uneven = false;
    options_.strategy.sync_batchnorm = has_batch_norm_;
    // Small values, so that even a small model is partitioned.
    options_.strategy.zero.persistence_threshold = 1;
    options_.strategy.zero.bucket_elements = 10'000;
  }

  VerifyReport run();

 private:
  using AloneKey = std::tuple<size_t, bool, int, int>;  // type, clips, composition
  using Key = std::tuple<size_t, size_t, int>;          // type, variant, workers

  void prepare();
  std::vector<Tried> strategies() const;
  void prepare_losses();
  StrategyOptions options_for(const Tried& tried, size_t type) const;
  int64_t count_trials(const std::vector<Tried>& all) const;
  void measure_clip_norm(const std::vector<double>& norms);
  void leave_out_rounding(const std::vector<torch::Tensor>& gradients);
  const Reference& reference(size_t type, bool clips, const Composition& composition);
  Reference train_alone(size_t type, bool clips, const Composition& composition);
  const Reference& stage_zero(Communicator* group, int workers, size_t type, size_t variant);
  TrialResult try_out(
      const Tried& tried, Communicator* group, int workers, size_t type, size_t variant);
  void train_group(
      const Tried& tried, Communicator* group, int workers, size_t type, size_t variant);
  std::vector<torch::Tensor> values_now() const;
  void train_step(Strategy& strategy,
                  const std::vector<std::vector<int64_t>>& parts,
                  size_t type,
                  int workers);
  std::vector<std::vector<int64_t>> indices(int64_t step, int rank, const Composition& composition);
  DistributedSampler& sampler_of(int worker, int workers);
  void show(const std::string& what);
  bool speaks() const { return world_.rank() == 0; }

  SessionParts& session_;
  TrainerOptions options_;
  const Task& task_;
  Communicator& world_;
  int64_t steps_;
  bool has_batch_norm_;
  double clip_norm_ = 0;
  TrialState* state_ = nullptr;
  std::vector<Moved> moved_;
  std::vector<torch::Tensor> compared_;  // see Comparable
  std::map<AloneKey, Reference> references_;
  std::map<Key, Reference> stage_zero_;
  std::vector<LossFunction> losses_;  // by type; only types that this machine supports
  std::map<std::pair<int, int>, DistributedSampler> samplers_;  // by rank and workers
  VerifyReport report_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  std::chrono::steady_clock::time_point shown_ = {};
};

std::vector<Tried> Verification::strategies() const {
  std::vector<std::string> names = contract::strategy_names();
  std::erase_if(names, [](const std::string& name) {
    return strategy::has(name, &strategy::Properties::is_for_one_worker);
  });
  if (session_.flags.strategy) {
    names = {*session_.flags.strategy};
  }
  std::vector<Tried> tried;
  for (const std::string& name : names) {
    if (!strategy::has(name, &strategy::Properties::has_zero_stages)) {
      tried.push_back({.name = name});
      continue;
    }
    for (const int stage : {0, 1, 2, 3}) {
      if (session_.flags.zero_stage.value_or(stage) == stage) {
        tried.push_back({.name = name, .stage = stage});
      }
    }
  }
  return tried;
}

// Determines the types that this machine supports, each with its loss function.
void Verification::prepare_losses() {
  losses_ = {task_.loss, task_.loss};
  for (size_t type = kExactTypes; type < kTypes.size(); ++type) {
    try {
      losses_.push_back(in_precision(task_.loss, kVerifiedTypes.at(type), session_.device));
    } catch (const Error&) {
      report_.notes.push_back(
          fmt::format("{} is not tested: this libtorch does not support it on this machine",
                      kVerifiedTypes.at(type)));
      return;
    }
  }
}

StrategyOptions Verification::options_for(const Tried& tried, size_t type) const {
  StrategyOptions options = options_.strategy;
  options.zero.stage = tried.stage;
  options.zero.parameter_type = kParameterTypes.at(type);
  return options;
}

// Deterministic kernels on a GPU: TF32 and algorithm selection would hide or cause differences.
void Verification::prepare() {
  const int64_t minimum = int64_t{world_.size()} * kVariants.back().accumulate;
  if (options_.global_batch < minimum) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot verify strategies: cannot split {} samples among {} "
                            "workers x {} micro-batches",
                            options_.global_batch,
                            world_.size(),
                            kVariants.back().accumulate))
        .fact("--global-batch", std::to_string(options_.global_batch))
        .fact("workers", std::to_string(world_.size()))
        .hint(fmt::format("--global-batch {}", minimum));
  }
  task_.model.to(session_.device);
  task_.model.train();
  moved_ = moved_tensors(task_.model);
  compared_.resize(moved_.size());
  report_.steps = steps_;
  report_.global_batch = options_.global_batch;
  report_.world_size = world_.size();
  prepare_losses();
  // The same kernel for all trials. The faster one may depend on the local batch, which differs
  // between trials.
  const std::string kernel =
      session_.flags.convolution == "auto" ? "im2col" : session_.flags.convolution;
  const std::vector<int64_t> first = {0};
  const ConvolutionChoice choice = choose_convolution(
      kernel, task_.model, task_.loss, task_.train->batch(first).to(session_.device), world_);
  if (!choice.kernel.empty()) {
    report_.notes.push_back(fmt::format("convolutions: {}", choice.kernel));
  }
  if (session_.device.is_cuda()) {
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
}

VerifyReport Verification::run() {
  prepare();
  TrialState state(task_.model, task_.optimizer);
  state_ = &state;
  const QuietDropout quiet(task_.model);
  if (!quiet.names().empty()) {
    report_.notes.push_back(fmt::format("dropout is disabled: {}", join(quiet.names(), ", ")));
  }
  if (has_batch_norm_) {
    report_.notes.push_back(
        "batch norm statistics are computed over the (micro-)batches of all workers");
  }
  const std::vector<Tried> all = strategies();
  total_ = count_trials(all);
  // The first reference determines the norm for clipping.
  reference(0, false, {});
  for (int workers = 1; workers <= world_.size(); ++workers) {
    const std::unique_ptr<Communicator> group = world_.subset(workers);
    for (const Tried& tried : all) {
      VerifiedRow row{.strategy = tried.label(),
                      .workers = workers,
                      .types = tried.has_stages() ? losses_.size() : kExactTypes,
                      .results = {}};
      for (size_t type = 0; type < row.types; ++type) {
        for (size_t variant = 0; variant < kVariants.size(); ++variant) {
          row.results.at(type).at(variant) = try_out(tried, group.get(), workers, type, variant);
        }
      }
      report_.rows.push_back(std::move(row));
    }
  }
  // Trials ran by number of workers; the table is sorted by strategy.
  std::stable_sort(
      report_.rows.begin(), report_.rows.end(), [&all](const VerifiedRow& a, const VerifiedRow& b) {
        const auto place = [&all](const std::string& label) {
          return std::find_if(all.begin(), all.end(), [&label](const Tried& each) {
            return each.label() == label;
          });
        };
        return place(a.strategy) < place(b.strategy);
      });
  return std::move(report_);
}

int64_t Verification::count_trials(const std::vector<Tried>& all) const {
  const auto short_types = static_cast<int64_t>(losses_.size() - kExactTypes);
  const auto variants = static_cast<int64_t>(kVariants.size());
  int64_t trials = 0;
  bool has_stages = false;
  for (const Tried& tried : all) {
    trials += variants * static_cast<int64_t>(kExactTypes);
    trials += tried.has_stages() ? variants * short_types : 0;
    has_stages = has_stages || tried.has_stages();
  }
  trials += has_stages ? variants * short_types : 0;  // references of the 16-bit types
  // One process is trained in each exact type, with and without clipping. With batch norm, each
  // composition of micro-batches needs its own reference.
  const auto references = static_cast<int64_t>(kExactTypes) * 2;
  return trials * world_.size() + references * (has_batch_norm_ ? world_.size() + 1 : 1);
}

// Normally, the single process computes the global batch at once. With batch norm, the result
// depends on the micro-batches. The process then uses the micro-batches of the workers, each
// composed of the parts of all workers.
const Reference& Verification::reference(size_t type, bool clips, const Composition& composition) {
  const Composition wanted = has_batch_norm_ && composition.parts > 1 ? composition : Composition{};
  const AloneKey key{type, clips, wanted.workers, wanted.parts};
  const auto found = references_.find(key);
  if (found != references_.end()) {
    return found->second;
  }
  show(fmt::format("one process, {}", kVerifiedTypes.at(type)));
  return references_.emplace(key, train_alone(type, clips, wanted)).first->second;
}

// Rank 0 trains; the others call a barrier after each step. Without it they would wait for the
// entire training in one call, and a stall would be reported.
Reference Verification::train_alone(size_t type, bool clips, const Composition& composition) {
  comm::Solo solo;
  const bool is_first = references_.empty();
  std::vector<double> norms;
  std::vector<torch::Tensor> gradients(moved_.size());
  state_->begin(kTypes.at(type), 0);
  const auto strategy = make_strategy(strategy::default_name(1), solo, options_.strategy);
  strategy->adopt(task_.model, task_.optimizer);
  for (int64_t step = 0; step < steps_; ++step) {
    if (speaks()) {
      train_step(*strategy, indices(step, -1, composition), type, 1);
      for (size_t i = 0; is_first && i < moved_.size(); ++i) {
        const torch::Tensor& gradient = moved_[i].tensor.grad();
        if (gradient.defined()) {
          gradients[i] = gradients[i].defined() ? torch::maximum(gradients[i], gradient.abs())
                                                : gradient.abs();
        }
      }
      norms.push_back(
          strategy->step({.clip_norm = clips ? clip_norm_ : 0, .wants_norm = is_first}).norm);
    }
    world_.barrier();
  }
  Reference result;
  torch::Tensor news = torch::ones({2}, torch::kFloat64);
  if (speaks()) {
    result.values = values_now();
    for (const torch::Tensor& value : result.values) {
      if (!value.isfinite().all().item<bool>()) {
        news[0] = 0;
      }
    }
    if (is_first) {
      measure_clip_norm(norms);
      leave_out_rounding(gradients);
    }
    news[1] = clip_norm_;
  }
  world_.broadcast(news);
  clip_norm_ = news[1].item<double>();
  if (news[0].item<double>() == 0) {
    throw Error(ExitCode::Usage,
                "cannot verify strategies: the weights of the single process are not finite")
        .fact("steps", std::to_string(steps_))
        .fact("learning rate", fmt::format("{:.4g}", learning_rates(task_.optimizer).front()))
        .hint(fmt::format("--lr {:.4g}", learning_rates(task_.optimizer).front() / 10));
  }
  return result;
}

void Verification::measure_clip_norm(const std::vector<double>& norms) {
  const double mean =
      std::accumulate(norms.begin(), norms.end(), 0.0) / static_cast<double>(norms.size());
  clip_norm_ = mean > 0 ? mean / 2 : 1;
  report_.clip_norm = clip_norm_;
}

void Verification::leave_out_rounding(const std::vector<torch::Tensor>& gradients) {
  Comparable found = find_comparable(moved_, gradients);
  compared_ = std::move(found.values);
  if (!found.left_out.empty()) {
    report_.notes.push_back(
        fmt::format("not compared, because the gradient is zero except for rounding: {}",
                    join(found.left_out, ", ")));
  }
}

// The reference of a training in a 16-bit type. Rounding to 8 bits of mantissa is not small, so the
// result depends on how a batch is split. Stage 0 with the same workers splits it in the same way.
const Reference& Verification::stage_zero(Communicator* group,
                                          int workers,
                                          size_t type,
                                          size_t variant) {
  const Key key{type, variant, workers};
  const auto found = stage_zero_.find(key);
  if (found != stage_zero_.end()) {
    return found->second;
  }
  // Computed first, because it trains the same model unless its result is cached.
  const Variant& how = kVariants.at(variant);
  const Reference& exact =
      reference(kFloat32, how.clips, {.workers = workers, .parts = how.accumulate});
  train_group({.name = strategy::name_with(&strategy::Properties::has_zero_stages)},
              group,
              workers,
              type,
              variant);
  Reference result;
  if (speaks()) {
    result.values = values_now();
    const double rounding = compare(moved_, exact.values, compared_).drift;
    result.rounding = rounding <= kMaxRounding ? rounding : 0;
  }
  return stage_zero_.emplace(key, std::move(result)).first->second;
}

// On the CPU, because the references of all trials together can exceed the memory of a GPU.
std::vector<torch::Tensor> Verification::values_now() const {
  std::vector<torch::Tensor> values;
  for (const Moved& each : moved_) {
    values.push_back(each.tensor.detach().to(torch::kCPU).clone());
  }
  return values;
}

// Only rank 0 has references and results; find_difference() is a collective of the ranks that took
// part.
TrialResult Verification::try_out(
    const Tried& tried, Communicator* group, int workers, size_t type, size_t variant) {
  const Variant& how = kVariants.at(variant);
  const Reference& wanted =
      type < kExactTypes ? reference(type, how.clips, {.workers = workers, .parts = how.accumulate})
                         : stage_zero(group, workers, type, variant);
  train_group(tried, group, workers, type, variant);
  TrialResult result;
  if (group != nullptr) {
    const std::string different = find_difference(moved_, *group);
    if (speaks()) {
      result = compare(moved_, wanted.values, compared_);
      result.rounding = wanted.rounding;
      result.identical = different.empty();
      result.different = different;
    }
  }
  return result;
}

// Workers that do not take part only call the barrier after each step.
void Verification::train_group(
    const Tried& tried, Communicator* group, int workers, size_t type, size_t variant) {
  const Variant& how = kVariants.at(variant);
  show(fmt::format("-s {} on {} of {} workers, {}, {}",
                   tried.label(),
                   workers,
                   world_.size(),
                   kVerifiedTypes.at(type),
                   how.name));
  if (group == nullptr) {
    for (int64_t step = 0; step < steps_; ++step) {
      world_.barrier();
    }
    return;
  }
  // Workers start with different weights on purpose: adopt() must synchronize them.
  state_->begin(kTypes.at(type), 0.125 * group->rank());
  const auto trained = make_strategy(tried.name, *group, options_for(tried, type));
  trained->adopt(task_.model, task_.optimizer);
  const Composition composition{.workers = workers, .parts = how.accumulate};
  for (int64_t step = 0; step < steps_; ++step) {
    train_step(*trained, indices(step, group->rank(), composition), type, workers);
    trained->step({.clip_norm = how.clips ? clip_norm_ : 0, .loss_scale = kLossScales.at(type)});
    world_.barrier();
  }
  trained->leave();
}

void Verification::train_step(Strategy& strategy,
                              const std::vector<std::vector<int64_t>>& parts,
                              size_t type,
                              int workers) {
  const auto all = static_cast<double>(options_.global_batch);
  for (size_t part = 0; part < parts.size(); ++part) {
    const Batch batch =
        as_type(task_.train->batch(parts[part]).to(session_.device), kTypes.at(type));
    const double weight = static_cast<double>(batch.size() * workers) / all;
    strategy.accumulate(
        losses_.at(type),
        batch,
        {.weight = weight * kLossScales.at(type), .last = part + 1 == parts.size()});
  }
}

// Returns the micro-batches of a step: those of worker `rank`, or of all workers combined if `rank`
// is negative.
std::vector<std::vector<int64_t>> Verification::indices(int64_t step,
                                                        int rank,
                                                        const Composition& composition) {
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(composition.parts));
  for (int worker = 0; worker < composition.workers; ++worker) {
    if (rank >= 0 && worker != rank) {
      continue;
    }
    DistributedSampler& sampler = sampler_of(worker, composition.workers);
    if (sampler.epoch() != step / sampler.steps()) {
      sampler.set_epoch(step / sampler.steps());
    }
    const std::vector<int64_t> mine = sampler.indices(step % sampler.steps());
    const auto size = static_cast<int64_t>(mine.size());
    for (int64_t part = 0; part < composition.parts; ++part) {
      const auto begin = mine.begin() + size * part / composition.parts;
      const auto end = mine.begin() + size * (part + 1) / composition.parts;
      std::vector<int64_t>& into = parts[static_cast<size_t>(part)];
      into.insert(into.end(), begin, end);
    }
  }
  return parts;
}

// Samplers are cached because sorting all samples is too expensive for each step.
DistributedSampler& Verification::sampler_of(int worker, int workers) {
  const auto found = samplers_.find({worker, workers});
  if (found != samplers_.end()) {
    return found->second;
  }
  return samplers_
      .emplace(std::pair(worker, workers),
               DistributedSampler({.dataset_size = task_.train->size(),
                                   .global_batch = options_.global_batch,
                                   .rank = worker,
                                   .world_size = workers,
                                   .tail = options_.tail,
                                   .seed = options_.seed}))
      .first->second;
}

void Verification::show(const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  const int64_t number = ++done_;
  if (!speaks()) {
    return;
  }
  if (session_.terminal_columns) {
    const std::string line = fmt::format("verifying {} of {}: {}", number, total_, what);
    fmt::print("{}{}\r",
               session_.is_terminal_ours ? "\x1b[2K" : "",
               line.substr(0, static_cast<size_t>(*session_.terminal_columns - 1)));
    std::fflush(stdout);
  } else if (now - shown_ >= std::chrono::seconds(5)) {
    shown_ = now;
    log::info("verifying {} of {}: {}", number, total_, what);
  }
}

}  // namespace

VerifyReport verify(SessionParts& session, const TrainerOptions& options, const Task& task) {
  require_exact_flags(session.flags);
  return Verification(session, options, task).run();
}

}  // namespace lockstep::train

// SPDX-License-Identifier: Apache-2.0
#include "train/verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <numeric>

#include "base/log.h"
#include "base/text.h"
#include "comm/solo.h"
#include "contract/strategy_kind.h"
#include "lockstep/error.h"
#include "lockstep/verify.h"
#include "train/convolution.h"
#include "train/trial_state.h"
#include "train/verified.h"

namespace lockstep::train {
namespace {

constexpr std::array kTypes = {torch::kFloat64, torch::kFloat32};

// A tensor near zero is measured by this share of the model's largest value.
constexpr double kLeastScale = 0.01;

// A gradient of float64 that stays below this share of the model's largest is zero but for
// rounding.
constexpr double kRoundingShare = 1e-12;

Batch as_type(const Batch& batch, torch::ScalarType type) {
  const auto convert = [type](const torch::Tensor& tensor) {
    return tensor.is_floating_point() ? tensor.to(type) : tensor;
  };
  return {convert(batch.input), convert(batch.target)};
}

double largest_of(const torch::Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

// What one process trained.
struct Reference {
  std::vector<torch::Tensor> values;  // in the order of moved_tensors()
};

// Which samples go into which micro-batch: those of a gang of `workers`, cut in `parts`.
struct Composition {
  int workers = 1;
  int parts = 1;
};

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
  }

  VerifyReport run();

 private:
  using Key = std::tuple<size_t, bool, int, int>;  // type, clips, composition

  void prepare();
  std::vector<std::string> strategies() const;
  void measure_clip_norm(const std::vector<double>& norms);
  void find_rounding_only(const std::vector<torch::Tensor>& gradients);
  const Reference& reference(size_t type, bool clips, const Composition& composition);
  Reference train_alone(size_t type, bool clips, const Composition& composition);
  TrialResult train_gang(const std::string& strategy,
                         Communicator* gang,
                         int workers,
                         size_t type,
                         const Variant& variant);
  void train_step(Strategy& strategy,
                  const std::vector<std::vector<int64_t>>& parts,
                  size_t type,
                  int workers);
  TrialResult compare(const Reference& wanted) const;
  std::string find_difference(Communicator& gang) const;
  std::vector<std::vector<int64_t>> indices(int64_t step,
                                            int rank,
                                            const Composition& composition) const;
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
  std::vector<torch::Tensor> compared_;  // which values; undefined: all
  std::map<Key, Reference> references_;
  VerifyReport report_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  std::chrono::steady_clock::time_point shown_ = {};
};

std::vector<std::string> Verification::strategies() const {
  if (session_.flags.strategy) {
    return {*session_.flags.strategy};
  }
  std::vector<std::string> names = contract::strategy_names();
  std::erase(names, "single");
  return names;
}

void Verification::prepare() {
  const int64_t least = int64_t{world_.size()} * kVariants.back().accumulate;
  if (options_.global_batch < least) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot verify strategies: {} samples cannot be shared among {} "
                            "workers x {} micro-batches",
                            options_.global_batch,
                            world_.size(),
                            kVariants.back().accumulate))
        .fact("--global-batch", std::to_string(options_.global_batch))
        .fact("workers", std::to_string(world_.size()))
        .hint(fmt::format("--global-batch {}", least));
  }
  task_.model.to(session_.device);
  task_.model.train();
  moved_ = moved_tensors(task_.model);
  compared_.resize(moved_.size());
  report_.steps = steps_;
  report_.global_batch = options_.global_batch;
  report_.world_size = world_.size();
  // One kernel for all trials: which is faster may differ with the size of a worker's part.
  const std::string kernel =
      session_.flags.convolution == "auto" ? "im2col" : session_.flags.convolution;
  const std::vector<int64_t> first = {0};
  const ConvolutionChoice choice = choose_convolution(
      kernel, task_.model, task_.loss, task_.train->batch(first).to(session_.device), world_);
  if (!choice.kernel.empty()) {
    report_.notes.push_back(fmt::format("convolutions by {}", choice.kernel));
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
    report_.notes.push_back(fmt::format("dropout is off: {}", join(quiet.names(), ", ")));
  }
  if (has_batch_norm_) {
    report_.notes.push_back(
        "batch norm takes its statistics over the whole (micro-)batch of the gang");
  }
  const std::vector<std::string> names = strategies();
  const auto cells = static_cast<int64_t>(kTypes.size() * kVariants.size());
  // One process is trained in each type, with and without clipping; batch norm needs more.
  const auto references = static_cast<int64_t>(kTypes.size() * 2);
  total_ = static_cast<int64_t>(names.size()) * world_.size() * cells +
           references * (has_batch_norm_ ? world_.size() + 1 : 1);
  // The first reference tells what to clip to.
  reference(0, false, {});
  for (int workers = 1; workers <= world_.size(); ++workers) {
    const std::unique_ptr<Communicator> gang = world_.subset(workers);
    for (const std::string& name : names) {
      VerifiedRow row{.strategy = name, .workers = workers, .results = {}};
      for (size_t type = 0; type < kTypes.size(); ++type) {
        for (size_t variant = 0; variant < kVariants.size(); ++variant) {
          row.results.at(type).at(variant) =
              train_gang(name, gang.get(), workers, type, kVariants.at(variant));
        }
      }
      report_.rows.push_back(std::move(row));
    }
  }
  // Rows of one strategy stand together.
  std::stable_sort(report_.rows.begin(),
                   report_.rows.end(),
                   [&names](const VerifiedRow& a, const VerifiedRow& b) {
                     return std::find(names.begin(), names.end(), a.strategy) <
                            std::find(names.begin(), names.end(), b.strategy);
                   });
  return std::move(report_);
}

// One process takes the micro-batches of the gang, each put together from its workers' parts, only
// where that matters: batch norm sees the micro-batch. Else it takes the global batch at once.
const Reference& Verification::reference(size_t type, bool clips, const Composition& composition) {
  const Composition wanted = has_batch_norm_ && composition.parts > 1 ? composition : Composition{};
  const Key key{type, clips, wanted.workers, wanted.parts};
  const auto found = references_.find(key);
  if (found != references_.end()) {
    return found->second;
  }
  show(fmt::format("one process, {}", kVerifiedTypes.at(type)));
  return references_.emplace(key, train_alone(type, clips, wanted)).first->second;
}

// Every rank goes through the steps, so that none waits longer than for one; rank 0 trains.
Reference Verification::train_alone(size_t type, bool clips, const Composition& composition) {
  comm::Solo solo;
  const bool is_first = references_.empty();
  std::vector<double> norms;
  std::vector<torch::Tensor> gradients(moved_.size());
  state_->begin(kTypes.at(type), 0);
  const auto strategy = make_strategy("single", solo, options_.strategy);
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
      // A norm that is never reached is measured only.
      const double most = clips ? clip_norm_ : is_first ? std::numeric_limits<double>::max() : 0;
      norms.push_back(strategy->step({.clip_norm = most}).norm);
    }
    world_.barrier();
  }
  Reference result;
  torch::Tensor news = torch::ones({2}, torch::kFloat64);
  if (speaks()) {
    for (const Moved& each : moved_) {
      result.values.push_back(each.tensor.detach().to(torch::kCPU).clone());
      if (!result.values.back().isfinite().all().item<bool>()) {
        news[0] = 0;
      }
    }
    if (is_first) {
      measure_clip_norm(norms);
      find_rounding_only(gradients);
    }
    news[1] = clip_norm_;
  }
  world_.broadcast(news);
  clip_norm_ = news[1].item<double>();
  if (news[0].item<double>() == 0) {
    throw Error(ExitCode::Usage,
                "cannot verify strategies: the weights of one process are no longer finite numbers")
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

// An optimizer that divides by the size of the gradient (Adam) makes steps of full size out of
// rounding: such a parameter goes anywhere, under one process too when it adds in another order.
void Verification::find_rounding_only(const std::vector<torch::Tensor>& gradients) {
  double most = 0;
  for (const torch::Tensor& gradient : gradients) {
    most = std::max(most, gradient.defined() ? largest_of(gradient) : 0);
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < moved_.size(); ++i) {
    if (!gradients[i].defined()) {
      continue;
    }
    const torch::Tensor rounds =
        gradients[i].gt(0).logical_and(gradients[i].le(kRoundingShare * most));
    const auto count = rounds.sum().item<int64_t>();
    if (count > 0) {
      compared_[i] = rounds.logical_not().to(torch::kCPU).flatten();
      names.push_back(fmt::format("{} ({} of {} values)", moved_[i].name, count, rounds.numel()));
    }
  }
  if (!names.empty()) {
    report_.notes.push_back(fmt::format(
        "not compared, for the gradient is zero but for rounding: {}", join(names, ", ")));
  }
}

TrialResult Verification::train_gang(const std::string& strategy,
                                     Communicator* gang,
                                     int workers,
                                     size_t type,
                                     const Variant& variant) {
  const Composition composition{.workers = workers, .parts = variant.accumulate};
  const Reference& wanted = reference(type, variant.clips, composition);
  show(fmt::format("-s {} on {} of {} workers, {}, {}",
                   strategy,
                   workers,
                   world_.size(),
                   kVerifiedTypes.at(type),
                   variant.name));
  TrialResult result;
  if (gang == nullptr) {
    for (int64_t step = 0; step < steps_; ++step) {
      world_.barrier();
    }
    return result;
  }
  // Workers begin apart on purpose.
  state_->begin(kTypes.at(type), 0.125 * gang->rank());
  const auto trained = make_strategy(strategy, *gang, options_.strategy);
  trained->adopt(task_.model, task_.optimizer);
  for (int64_t step = 0; step < steps_; ++step) {
    train_step(*trained, indices(step, gang->rank(), composition), type, workers);
    trained->step({.clip_norm = variant.clips ? clip_norm_ : 0});
    world_.barrier();
  }
  const std::string different = find_difference(*gang);
  if (speaks()) {
    result = compare(wanted);
    result.identical = different.empty();
    result.different = different;
  }
  return result;
}

void Verification::train_step(Strategy& strategy,
                              const std::vector<std::vector<int64_t>>& parts,
                              size_t type,
                              int workers) {
  const auto all = static_cast<double>(options_.global_batch);
  for (size_t part = 0; part < parts.size(); ++part) {
    const Batch batch =
        as_type(task_.train->batch(parts[part]).to(session_.device), kTypes.at(type));
    strategy.accumulate(task_.loss,
                        batch,
                        {.weight = static_cast<double>(batch.size() * workers) / all,
                         .last = part + 1 == parts.size()});
  }
}

// The micro-batches of a step: those of worker `rank`, or, where it is negative, of all of them
// together.
std::vector<std::vector<int64_t>> Verification::indices(int64_t step,
                                                        int rank,
                                                        const Composition& composition) const {
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(composition.parts));
  for (int worker = 0; worker < composition.workers; ++worker) {
    if (rank >= 0 && worker != rank) {
      continue;
    }
    DistributedSampler sampler({.dataset_size = task_.train->size(),
                                .global_batch = options_.global_batch,
                                .rank = worker,
                                .world_size = composition.workers,
                                .tail = options_.tail,
                                .seed = options_.seed});
    sampler.set_epoch(step / sampler.steps());
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

TrialResult Verification::compare(const Reference& wanted) const {
  double model = 0;
  for (size_t i = 0; i < moved_.size(); ++i) {
    model = std::max(model, moved_[i].tensor.requires_grad() ? largest_of(wanted.values[i]) : 0);
  }
  TrialResult result;
  for (size_t i = 0; i < moved_.size(); ++i) {
    const torch::Tensor mine = moved_[i].tensor.detach().to(torch::kCPU).flatten();
    const torch::Tensor theirs = wanted.values[i].flatten();
    torch::Tensor differences = (mine - theirs).abs();
    if (compared_[i].defined()) {
      differences = torch::where(compared_[i], differences, torch::zeros_like(differences));
    }
    const auto where = differences.argmax().item<int64_t>();
    const double scale = std::max({largest_of(theirs), kLeastScale * model, 1e-300});
    double drift = differences[where].item<double>() / scale;
    drift = std::isnan(drift) ? std::numeric_limits<double>::infinity() : drift;
    if (drift > result.drift) {
      result.drift = drift;
      result.worst = fmt::format("'{}' element {} is {:.17g}, in one process {:.17g}",
                                 moved_[i].name,
                                 where,
                                 mine[where].item<double>(),
                                 theirs[where].item<double>());
    }
  }
  return result;
}

// The first parameter that some worker holds with other bits than rank 0; empty: none.
std::string Verification::find_difference(Communicator& gang) const {
  int64_t mine = -1;
  for (size_t i = 0; i < moved_.size() && gang.size() > 1; ++i) {
    if (!moved_[i].tensor.requires_grad()) {
      continue;
    }
    torch::Tensor first = moved_[i].tensor.detach().clone();
    gang.broadcast(first);
    if (mine < 0 && !first.equal(moved_[i].tensor)) {
      mine = static_cast<int64_t>(i);
    }
  }
  const torch::Tensor all = gang.all_gather(torch::full({1}, mine, torch::kInt64));
  for (int64_t rank = 0; rank < gang.size(); ++rank) {
    const auto index = all[rank].item<int64_t>();
    if (index >= 0) {
      return fmt::format(
          "'{}' on rank {} is not what rank 0 has", moved_[static_cast<size_t>(index)].name, rank);
    }
  }
  return "";
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

void require_exact_flags(const Flags& flags) {
  const auto refuse = [](bool given, const std::string& flag, const char* why) {
    if (given) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot take {} beside --verify-strategies: {}", flag, why))
          .fact("asked", fmt::format("{} and --verify-strategies", flag), "command line")
          .hint(fmt::format("the same without {}", flag));
    }
  };
  const HorovodFlags& horovod = flags.horovod;
  const std::string compression = flags.compression.value_or("none");
  const std::string precision = flags.precision.value_or("fp32");
  const std::string reduction = flags.horovod.reduction.value_or("average");
  refuse(flags.strategy == "single", "-s single", "that is what the others are compared with");
  refuse(compression != "none", "--compression " + compression, "it rounds gradients on their way");
  refuse(horovod.fp16_allreduce, "--fp16-allreduce", "it rounds gradients on their way");
  refuse(reduction != "average", "--reduction " + reduction, "it is another training by intent");
  refuse(horovod.use_adasum, "--use-adasum", "it is another training by intent");
  refuse(precision != "fp32", "--precision " + precision, "it compares in float64 and float32");
  refuse(flags.loss_scale.has_value(), "--loss-scale", "it compares in float64 and float32");
  refuse(flags.ema.has_value(), "--ema", "it compares the weights that are trained");
  refuse(flags.clip_norm.has_value(), "--clip", "it tries with and without clipping by itself");
  refuse(flags.accumulate.has_value(),
         "--accumulate",
         "it tries with and without accumulation by itself");
  refuse(flags.replicas > 1, "--replicas", "each process is one worker here");
  refuse(flags.auto_shard != "data",
         "--auto-shard " + flags.auto_shard,
         "every strategy must see the same batches");
  refuse(flags.resume != "none", "--resume", "it begins with the program's first weights");
}

VerifyReport verify(SessionParts& session, const TrainerOptions& options, const Task& task) {
  require_exact_flags(session.flags);
  return Verification(session, options, task).run();
}

}  // namespace lockstep::train

namespace lockstep {

void verify_any(Session& session,
                torch::nn::Module& model,
                torch::optim::Optimizer& optimizer,
                const DatasetPtr& train,
                const LossFunction& loss,
                const TrainerOptions& options) {
  train::SessionParts& parts = session.parts();
  const train::VerifyReport report = train::verify(
      parts,
      train::resolve(options, session.flags(), session.world_size()),
      {.model = model, .optimizer = optimizer, .train = train, .test = nullptr, .loss = loss});
  torch::Tensor agree = torch::ones({1}, torch::kInt64);
  if (session.rank() == 0) {
    agree[0] = train::agrees(report) ? 1 : 0;
    fmt::print("{}{}", parts.is_terminal_ours ? "\x1b[2K" : "", train::format_report(report));
    std::fflush(stdout);
  }
  // Nobody leaves before the table is out: a launcher ends the others when one fails.
  session.communicator().broadcast(agree);
  session.communicator().barrier();
  throw train::Verified(agree.item<int64_t>() == 1);
}

}  // namespace lockstep

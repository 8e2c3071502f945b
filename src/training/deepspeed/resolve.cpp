// SPDX-License-Identifier: Apache-2.0
//
// Decides the values that the file leaves open. Precedence for one value:
//
//   file has a value       the file; a flag with another value is an error, as both were written by
//                          the user and neither can be preferred silently
//   file has "auto"        the flag, else the option of the program, else DeepSpeed's default
//   file has nothing       the flag, else DeepSpeed's default
//
// Only values that replace "auto" are reported as decisions.
#include "training/deepspeed/resolve.h"

#include <fmt/format.h>
#include <string_view>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::deepspeed {
namespace {

template <typename T>
std::string text_of(const T& value) {
  return fmt::format("{}", value);
}

// "--lr 0.1 conflicts with optimizer.params.lr 0.001 in ds_config.json:5". The hint differs for
// types, since "auto" is not allowed there.
Error conflict(const Config& config,
               std::string_view flag,
               std::string_view key,
               std::string_view in_file,
               const Position& position) {
  const std::string_view name = flag.substr(0, flag.find(' '));
  return Error(ExitCode::Usage,
               fmt::format("{} conflicts with {} {} in {}:{}",
                           flag,
                           key,
                           in_file,
                           config.source,
                           position.line))
      .fact(name, flag.substr(flag.find(' ') + 1), "command line")
      .fact(key, in_file, describe(position))
      .hint(key.ends_with(".type")
                ? fmt::format("omit {}, or the section of {} in {}", name, key, config.source)
                : fmt::format("omit {}, or write \"auto\" in {}", name, config.source));
}

// `is_typed` distinguishes a flag from an option of the program: a program that sets a learning
// rate for its default run must not conflict with every file.
template <typename T>
void require_agreement(const Config& config,
                       std::string_view key,
                       const Setting<T>& setting,
                       const Said<T>& said) {
  if (setting.value && said.is_typed && said.value && *said.value != *setting.value) {
    throw conflict(config,
                   fmt::format("{} {}", said.source, *said.value),
                   key,
                   text_of(*setting.value),
                   setting.position);
  }
}

// Configuration and list of decisions, for settle().
struct Settling {
  const Config& config;
  Decisions& decisions;
};

// Resolves `setting` unless the file has a value: with `said`, otherwise with `fallback`, the
// default of DeepSpeed. A value that only the program has set is used for "auto" only.
template <typename T>
void settle(const Settling& all,
            std::string_view key,
            Setting<T>& setting,
            const Said<T>& said,
            T fallback) {
  require_agreement(all.config, key, setting, said);
  if (setting.value) {
    return;
  }
  const bool takes_said = said.value && (said.is_typed || setting.is_auto);
  setting.value = takes_said ? *said.value : fallback;
  if (setting.is_auto) {
    all.decisions.push_back(
        fmt::format("{}: auto -> {} ({})",
                    key,
                    *setting.value,
                    takes_said ? "from " + said.source : "DeepSpeed's default"));
  }
}

std::string arithmetic(int64_t train, int64_t micro, int64_t accumulation, int world) {
  return fmt::format("{} is not {} x {} x {} = {}",
                     train,
                     micro,
                     accumulation,
                     world,
                     micro * accumulation * world);
}

// Shows all three factors and which of them were inferred, because the wrong one is usually not the
// one that the user looks at.
Error batch_does_not_fit(
    const Config& config, int64_t train, int64_t micro, int64_t accumulation, int world) {
  Error error(ExitCode::Usage,
              fmt::format("batch sizes in {} do not match: {}",
                          config.source,
                          arithmetic(train, micro, accumulation, world)));
  const auto tell = [&](std::string_view key, const Setting<int64_t>& setting, int64_t value) {
    error.fact(
        key,
        std::to_string(value),
        setting.is_given() && setting.position.line > 0 ? describe(setting.position) : "inferred");
  };
  tell("train_batch_size", config.train_batch_size, train);
  tell("train_micro_batch_size_per_gpu", config.micro_batch_size, micro);
  tell("gradient_accumulation_steps", config.accumulation_steps, accumulation);
  error.fact("workers", std::to_string(world));
  const int64_t whole = std::max<int64_t>(micro, 1) * std::max<int64_t>(accumulation, 1) * world;
  error.hint(fmt::format(R"("train_batch_size": {})", whole));
  return error;
}

// The three batch sizes during inference; 0: unknown.
struct Batch {
  int64_t train = 0;
  int64_t micro = 0;
  int64_t accumulation = 0;
  std::string train_source;
};

// DeepSpeed's invariant: train = micro x accumulation x workers. Any two determine the third. Here
// the known values are collected; a default of the program counts only if the file has neither
// train nor micro.
Batch read_batch(const Config& config, const Known& known) {
  Batch batch{.train = config.train_batch_size.value.value_or(0),
              .micro = config.micro_batch_size.value.value_or(0),
              .accumulation = config.accumulation_steps.value.value_or(0),
              .train_source = ""};
  if (batch.train == 0 && known.global_batch.is_typed) {
    batch.train = known.global_batch.value.value_or(0);
    batch.train_source = known.global_batch.source;
  }
  if (batch.train == 0 && known.batch_per_worker.value) {
    batch.train = *known.batch_per_worker.value * known.world_size;
    batch.train_source = known.batch_per_worker.source;
  }
  if (batch.train == 0 && batch.micro == 0) {
    batch.train = known.global_batch.value.value_or(0);
    batch.train_source = known.global_batch.source;
  }
  return batch;
}

// The order: accumulation from train and micro, else the usual
// one; then train; then micro. Integer division can leave a remainder, which resolve_batch()
// detects by multiplying again.
void infer(Batch& batch, const Known& known) {
  const int64_t usual = known.accumulate.value.value_or(1);
  const int world = known.world_size;
  if (batch.accumulation == 0) {
    const bool is_explicit = known.accumulate.is_typed;
    batch.accumulation = batch.train != 0 && batch.micro != 0 && !is_explicit
                             ? std::max<int64_t>(1, batch.train / (batch.micro * world))
                             : usual;
  }
  if (batch.train == 0) {
    batch.train = batch.micro * batch.accumulation * world;
  }
  if (batch.micro == 0) {
    batch.micro = std::max<int64_t>(1, batch.train / (batch.accumulation * world));
  }
}

// --batch-size is per worker and includes accumulation, so that it is compared with the product.
void require_batch_agreement(const Config& config, const Known& known, const Batch& batch) {
  require_agreement(config, "train_batch_size", config.train_batch_size, known.global_batch);
  require_agreement(
      config, "gradient_accumulation_steps", config.accumulation_steps, known.accumulate);
  const Setting<int64_t>& said =
      config.train_batch_size.is_given() ? config.train_batch_size : config.micro_batch_size;
  const int64_t in_file = config.train_batch_size.is_given()
                              ? batch.train
                              : batch.micro * batch.accumulation * known.world_size;
  if (known.batch_per_worker.value && said.is_given() &&
      *known.batch_per_worker.value * known.world_size != in_file) {
    throw conflict(
        config,
        fmt::format("--batch-size {}", *known.batch_per_worker.value),
        config.train_batch_size.is_given() ? "train_batch_size" : "train_micro_batch_size_per_gpu",
        text_of(*said.value),
        said.position)
        .fact("workers", std::to_string(known.world_size));
  }
}

}  // namespace

Decisions resolve_batch(Config& config, const Known& known) {
  Batch batch = read_batch(config, known);
  if (batch.train == 0 && batch.micro == 0) {
    throw Error(ExitCode::Usage, fmt::format("no batch size in {}", config.source))
        .fact("expected", "train_batch_size or train_micro_batch_size_per_gpu")
        .hint(R"("train_batch_size": 32, or --global-batch 32)");
  }
  infer(batch, known);
  require_batch_agreement(config, known, batch);
  if (batch.train != batch.micro * batch.accumulation * known.world_size) {
    throw batch_does_not_fit(
        config, batch.train, batch.micro, batch.accumulation, known.world_size);
  }
  Decisions decisions;
  const auto put = [&](std::string_view key,
                       Setting<int64_t>& setting,
                       int64_t value,
                       const std::string& source) {
    if (setting.is_auto && !setting.value) {
      decisions.push_back(fmt::format("{}: auto -> {} ({})",
                                      key,
                                      value,
                                      source.empty() ? "from the other sizes" : "from " + source));
    }
    setting.value = value;
  };
  const bool is_accumulation_explicit =
      known.accumulate.value && *known.accumulate.value == batch.accumulation;
  const std::string micro_source =
      batch.accumulation == 1 && !known.batch_per_worker.source.empty() ? batch.train_source : "";
  put("train_batch_size", config.train_batch_size, batch.train, batch.train_source);
  put("train_micro_batch_size_per_gpu", config.micro_batch_size, batch.micro, micro_source);
  put("gradient_accumulation_steps",
      config.accumulation_steps,
      batch.accumulation,
      is_accumulation_explicit ? known.accumulate.source : "");
  return decisions;
}

// One flag (--precision) corresponds to two sections of the file; each is checked on its own.
void settle_precision(const Settling& all,
                      const std::string& name,
                      Setting<bool>& setting,
                      const Said<std::string>& said) {
  const std::string key = name + ".enabled";
  const std::string precision = said.value.value_or("fp32");
  const bool is_wanted = precision == name;
  if (setting.value && said.is_typed && *setting.value != is_wanted) {
    throw conflict(all.config,
                   fmt::format("{} {}", said.source, precision),
                   key,
                   *setting.value ? "true" : "false",
                   setting.position);
  }
  if (setting.is_auto && !setting.value) {
    all.decisions.push_back(
        fmt::format("{}: auto -> {} (from {})",
                    key,
                    is_wanted,
                    said.value ? said.source : std::string("DeepSpeed's default")));
    setting.value = is_wanted;
  }
}

Decisions resolve_precision(Config& config, const Known& known) {
  Decisions decisions;
  const std::string said = known.precision.value.value_or("fp32");
  settle_precision({config, decisions}, "fp16", config.fp16, known.precision);
  settle_precision({config, decisions}, "bf16", config.bf16, known.precision);
  const bool is_open = !config.fp16.is_given() && !config.bf16.is_given();
  if (is_open) {
    config.fp16.value = said == "fp16";
    config.bf16.value = said == "bf16";
  }
  config.fp16.value = config.fp16.value.value_or(false);
  config.bf16.value = config.bf16.value.value_or(false);
  return decisions;
}

Decisions resolve_clipping(Config& config, const Known& known) {
  Decisions decisions;
  // Without a value in the file, the choice of the program stays in effect.
  const double own = known.clip.value.value_or(0);
  settle({config, decisions}, "gradient_clipping", config.gradient_clipping, known.clip, own);
  return decisions;
}

Decisions resolve_optimizer(Config& config, const Known& known) {
  Decisions decisions;
  if (!config.optimizer) {
    return decisions;
  }
  OptimizerConfig& optimizer = *config.optimizer;
  if (known.optimizer.is_typed && known.optimizer.value &&
      to_lower(*known.optimizer.value) != to_lower(optimizer.type)) {
    throw conflict(config,
                   fmt::format("{} {}", known.optimizer.source, *known.optimizer.value),
                   "optimizer.type",
                   optimizer.type,
                   optimizer.position);
  }
  const auto take = [&](const char* name,
                        Setting<double>& setting,
                        const Said<double>& said,
                        double fallback) {
    settle({config, decisions}, fmt::format("optimizer.params.{}", name), setting, said, fallback);
  };
  take("lr", optimizer.lr, known.lr, 1e-3);
  take("weight_decay", optimizer.weight_decay, known.weight_decay, 0);
  if (optimizer.type == "SGD") {
    take("momentum", optimizer.momentum, known.momentum, 0);
    return decisions;
  }
  take("eps", optimizer.eps, known.epsilon, 1e-8);
  take("betas[0]", optimizer.beta1, known.beta1, 0.9);
  take("betas[1]", optimizer.beta2, known.beta2, 0.999);
  return decisions;
}

// total_num_steps is often "auto", and the length of a training is known only when the data set is.
Decisions resolve_scheduler(Config& config, const Known& known) {
  Decisions decisions;
  if (!config.scheduler) {
    return decisions;
  }
  SchedulerConfig& scheduler = *config.scheduler;
  if (known.schedule.is_typed && known.schedule.value) {
    throw conflict(config,
                   fmt::format("{} {}", known.schedule.source, *known.schedule.value),
                   "scheduler.type",
                   scheduler.type,
                   scheduler.position);
  }
  const std::string_view type = scheduler.type;
  if (!type.starts_with("Warmup")) {
    return decisions;
  }
  const auto take = [&](const char* name, auto& setting, const auto& said, auto fallback) {
    settle({config, decisions}, fmt::format("scheduler.params.{}", name), setting, said, fallback);
  };
  take("warmup_num_steps", scheduler.warmup_num_steps, known.warmup_steps, int64_t{1000});
  if (type != "WarmupCosineLR") {
    take("warmup_min_lr", scheduler.warmup_min_lr, Said<double>{}, 0.0);
    // --lr does not conflict with warmup_max_lr, but "auto" takes its value.
    const Said<double> rate{.value = known.lr.value, .source = known.lr.source};
    take("warmup_max_lr", scheduler.warmup_max_lr, rate, 1e-3);
  }
  if (type != "WarmupLR") {
    const Said<int64_t> total{.value = known.total_steps.value, .source = known.total_steps.source};
    if (!scheduler.total_num_steps.is_given() && !total.value) {
      return decisions;  // the length of the training is still unknown
    }
    take("total_num_steps", scheduler.total_num_steps, total, int64_t{1});
  }
  return decisions;
}

Decisions resolve_zero(Config& config) {
  Decisions decisions;
  ZeroConfig& zero = config.zero;
  const auto take = [&](const char* name, Setting<int64_t>& setting) {
    if (setting.is_auto) {
      decisions.push_back(fmt::format("zero_optimization.{}: auto -> lockstep's default", name));
      setting.is_auto = false;
    }
  };
  take("reduce_bucket_size", zero.reduce_bucket_size);
  take("allgather_bucket_size", zero.allgather_bucket_size);
  take("stage3_prefetch_bucket_size", zero.prefetch_bucket_size);
  take("stage3_param_persistence_threshold", zero.param_persistence_threshold);
  take("stage3_max_live_parameters", zero.max_live_parameters);
  return decisions;
}

Resolved resolve(Config config, const Known& known) {
  Resolved resolved{.config = std::move(config), .decisions = {}};
  const auto add = [&resolved](const Decisions& decisions) {
    resolved.decisions.insert(resolved.decisions.end(), decisions.begin(), decisions.end());
  };
  add(resolve_batch(resolved.config, known));
  add(resolve_precision(resolved.config, known));
  add(resolve_clipping(resolved.config, known));
  add(resolve_optimizer(resolved.config, known));
  add(resolve_scheduler(resolved.config, known));
  add(resolve_zero(resolved.config));
  return resolved;
}

}  // namespace lockstep::deepspeed

// SPDX-License-Identifier: Apache-2.0
//
// Where ds_config.json enters the options of a training:
//
//   settle_deepspeed_flags()   right after parsing: strategy, conflicts, precision, recomputation
//   lay_file_over()            options of program  <-  file          (then the command line on top)
//   find_file_schedule()       when the number of steps is known
//
// The file was parsed and checked by deepspeed/; values that it leaves open are resolved here,
// because only here flags and program are known.
#include "training/train/options/deepspeed_flags.h"

#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/deepspeed_schedule.h"
#include "lockstep/error.h"
#include "training/train/options/strategy_flags.h"

namespace lockstep::train {
namespace {

using deepspeed::Config;
using deepspeed::Decisions;
using deepspeed::Known;
using deepspeed::Said;

// The value of the option if it was given, otherwise that of the program. A value of the program is
// used for "auto" only; one from the command line also contradicts the file.
template <typename T>
Said<T> said(const std::optional<T>& flag, const char* name, const T& own) {
  return {.value = flag.value_or(own),
          .source = flag ? name : "the program",
          .is_typed = flag.has_value()};
}

torch::ScalarType type_of(const std::string& name) {
  if (name.empty()) {
    return torch::ScalarType::Undefined;
  }
  if (name == "fp32") {
    return torch::kFloat32;
  }
  return name == "fp16" ? torch::kHalf : torch::kBFloat16;
}

// Applies the precision of the file, and checks it against the command line. "auto" is resolved
// later, when the options of the program are known. resolve_precision() is called for its check;
// the result of the trial is dropped.
void settle_precision(Flags& flags) {
  Config trial = *flags.file;
  deepspeed::resolve_precision(
      trial, {.precision = said<std::string>(flags.precision, "--precision", "fp32")});
  for (const bool is_fp16 : {true, false}) {
    const auto& in_file = is_fp16 ? flags.file->fp16 : flags.file->bf16;
    if (in_file.value.value_or(false)) {
      flags.precision = is_fp16 ? "fp16" : "bf16";
    }
  }
}

void require_stage_agreement(const Flags& flags) {
  if (!flags.zero_stage || !flags.file || flags.file->zero.position.line == 0 ||
      flags.file->zero.stage == *flags.zero_stage) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("--zero-stage {} conflicts with zero_optimization.stage {} in {}:{}",
                          *flags.zero_stage,
                          flags.file->zero.stage,
                          flags.file->source,
                          flags.file->zero.position.line))
      .fact("--zero-stage", std::to_string(*flags.zero_stage), "command line")
      .fact("zero_optimization.stage",
            std::to_string(flags.file->zero.stage),
            describe(flags.file->zero.position))
      .hint("omit --zero-stage");
}

// betas of the program apply to "auto" only if its own optimizer has them.
Known known_of(const OptimizerOptions& own, const Flags& flags) {
  Known known{.optimizer = said(flags.optimizer, "--optimizer", own.name),
              .lr = said(flags.lr, "--lr", own.lr),
              .weight_decay = said(flags.weight_decay, "--weight-decay", own.weight_decay)};
  // Only the options that the optimizer of the program has count as values of the program.
  if (own.name == "sgd" || flags.momentum) {
    known.momentum = said(flags.momentum, "--momentum", own.momentum);
  }
  if (own.name != "sgd" && own.name != "adagrad") {
    known.beta1 = {.value = own.beta1, .source = "the program"};
    known.beta2 = {.value = own.beta2, .source = "the program"};
    known.epsilon = {.value = own.epsilon, .source = "the program"};
  }
  return known;
}

Known known_of(const TrainerOptions& own, const Flags& flags, int world_size) {
  Known known{.world_size = world_size,
              .global_batch = said(flags.global_batch, "--global-batch", own.global_batch),
              .accumulate = said(flags.accumulate, "--accumulate", own.accumulate),
              .clip = said(flags.clip_norm, "--clip", own.clip_norm),
              .precision = said(flags.precision, "--precision", own.precision)};
  if (flags.batch_size) {
    known.batch_per_worker = {
        .value = flags.batch_size, .source = "--batch-size", .is_typed = true};
  }
  return known;
}

// loss_scale 0 means dynamic, as in DeepSpeed.
void lay_loss_scale(TrainerOptions& options, const deepspeed::LossScaleConfig& file) {
  options.loss_scale = file.fixed > 0 ? fmt::format("{}", file.fixed) : "dynamic";
  options.loss_scaling = {.first = std::ldexp(1.0, static_cast<int>(file.initial_scale_power)),
                          .good_steps = file.window,
                          .hysteresis = file.hysteresis,
                          .refills_hysteresis = file.consecutive_hysteresis,
                          .minimum = file.minimum};
}

// Values that were "auto" or absent have been resolved by now: the optionals that are read here
// have a value.
Schedule make_schedule(const deepspeed::SchedulerConfig& file) {
  const bool is_linear = file.warmup_type == "linear";
  const int64_t warmup = file.warmup_num_steps.value.value_or(0);
  if (file.type == "OneCycle") {
    return one_cycle({.min_lr = file.cycle_min_lr,
                      .max_lr = file.cycle_max_lr,
                      .decay_lr_rate = file.decay_lr_rate,
                      .first_steps = file.cycle_first_step_size,
                      .second_steps = file.cycle_second_step_size,
                      .decay_steps = file.decay_step_size,
                      .cycles_momentum = file.cycle_momentum,
                      .min_momentum = file.cycle_min_mom,
                      .max_momentum = file.cycle_max_mom,
                      .decay_momentum_rate = file.decay_mom_rate});
  }
  if (file.type == "LRRangeTest") {
    return lr_range_test({.min_lr = file.lr_range_test_min_lr,
                          .step_size = file.lr_range_test_step_size,
                          .step_rate = file.lr_range_test_step_rate,
                          .is_staircase = file.lr_range_test_staircase});
  }
  if (file.type == "WarmupCosineLR") {
    return warmup_cosine_lr({.total_steps = *file.total_num_steps.value,
                             .warmup_steps = warmup,
                             .warmup_min_ratio = file.warmup_min_ratio,
                             .cos_min_ratio = file.cos_min_ratio,
                             .is_linear = is_linear});
  }
  const WarmupOptions rise{.min_lr = *file.warmup_min_lr.value,
                           .max_lr = *file.warmup_max_lr.value,
                           .warmup_steps = warmup,
                           .is_linear = is_linear};
  return file.type == "WarmupLR" ? warmup_lr(rise)
                                 : warmup_decay_lr(rise, *file.total_num_steps.value);
}

}  // namespace

void settle_deepspeed_flags(Flags& flags) {
  select_strategy(flags);
  if (!flags.deepspeed_config) {
    return;
  }
  flags.file = deepspeed::read_config(*flags.deepspeed_config);
  require_stage_agreement(flags);
  settle_precision(flags);
  flags.recompute = flags.recompute || flags.file->recompute.value.value_or(false);
}

void lay_file_over(StrategyOptions& options, const Flags& flags) {
  ZeroOptions& zero = options.zero;
  zero.stage = flags.zero_stage.value_or(zero.stage);
  if (!flags.file) {
    return;
  }
  const deepspeed::ZeroConfig& file = flags.file->zero;
  zero.stage = flags.zero_stage.value_or(file.stage);
  zero.communication_type = type_of(flags.file->communication_type);
  zero.bucket_elements = file.reduce_bucket_size.value.value_or(zero.bucket_elements);
  zero.persistence_threshold =
      file.param_persistence_threshold.value.value_or(zero.persistence_threshold);
  zero.prefetch_elements = file.prefetch_bucket_size.value.value_or(zero.prefetch_elements);
  zero.max_live_elements = file.max_live_parameters.value.value_or(zero.max_live_elements);
  zero.offload_optimizer = file.offload_optimizer;
  options.overlap = options.overlap && file.overlap_comm.value_or(true);
}

deepspeed::Resolved resolve_file(const TrainerOptions& options,
                                 const Flags& flags,
                                 int world_size) {
  deepspeed::Resolved resolved{.config = *flags.file, .decisions = {}};
  const Known known = known_of(options, flags, world_size);
  const auto add = [&resolved](const Decisions& more) {
    resolved.decisions.insert(resolved.decisions.end(), more.begin(), more.end());
  };
  add(deepspeed::resolve_batch(resolved.config, known));
  add(deepspeed::resolve_precision(resolved.config, known));
  add(deepspeed::resolve_clipping(resolved.config, known));
  add(deepspeed::resolve_zero(resolved.config));
  return resolved;
}

void lay_file_over(TrainerOptions& options, const Flags& flags, int world_size) {
  lay_file_over(options.strategy, flags);
  if (!flags.file) {
    return;
  }
  const Config config = resolve_file(options, flags, world_size).config;
  options.global_batch = *config.train_batch_size.value;
  options.accumulate = *config.accumulation_steps.value;
  options.clip_norm = *config.gradient_clipping.value;
  if (*config.fp16.value) {
    options.precision = "fp16";
    lay_loss_scale(options, config.loss_scale);
  } else {
    options.precision = *config.bf16.value ? "bf16" : "fp32";
  }
  options.strategy.zero.parameter_type = type_of(options.precision);
  if (config.drop_last) {
    options.tail = Tail::Drop;
  }
  options.report_steps = config.steps_per_print.value_or(options.report_steps);
  options.report_phases = options.report_phases || config.wall_clock_breakdown;
}

// The optimizer of the file replaces that of the program completely; only open values come from it.
Decisions lay_file_over(OptimizerOptions& options, const Flags& flags) {
  if (!flags.file || !flags.file->optimizer) {
    return {};
  }
  Config config = *flags.file;
  Decisions decisions = deepspeed::resolve_optimizer(config, known_of(options, flags));
  const deepspeed::OptimizerConfig& file = *config.optimizer;
  options = OptimizerOptions{};
  options.name = to_lower(file.type);
  if (options.name == "adam" || options.name == "adamw") {
    options.name = file.decoupled_decay ? "adamw" : "adam";
  }
  options.lr = *file.lr.value;
  options.weight_decay = *file.weight_decay.value;
  options.momentum = file.momentum.value.value_or(0);
  options.dampening = file.dampening;
  options.nesterov = file.nesterov;
  options.beta1 = file.beta1.value.value_or(options.beta1);
  options.beta2 = file.beta2.value.value_or(options.beta2);
  options.epsilon = file.eps.value.value_or(options.epsilon);
  options.bias_correction = file.bias_correction;
  options.max_coeff = file.max_coeff;
  options.min_coeff = file.min_coeff;
  options.eps_inside_sqrt = file.eps_inside_sqrt;
  options.vectorised = config.zero.offload_optimizer;
  return decisions;
}

std::optional<Schedule> find_file_schedule(const Flags& flags,
                                           double rate,
                                           const TrainerOptions& options,
                                           int64_t total_steps,
                                           Decisions& decisions) {
  if (!flags.file || !flags.file->scheduler) {
    return std::nullopt;
  }
  Config config = *flags.file;
  decisions = deepspeed::resolve_scheduler(
      config,
      {.lr = {.value = rate, .source = "the optimizer"},
       .schedule = {.value = flags.schedule,
                    .source = "--schedule",
                    .is_typed = flags.schedule.has_value()},
       .warmup_steps = said(flags.warmup, "--warmup", options.warmup_steps),
       .total_steps = {.value = total_steps, .source = "the length of the training"}});
  return make_schedule(*config.scheduler);
}

}  // namespace lockstep::train

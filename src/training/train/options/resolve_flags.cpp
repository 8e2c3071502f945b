// SPDX-License-Identifier: Apache-2.0
// Combines the command line with the options of the program.
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/strategy/horovod/options.h"
#include "training/strategy/properties.h"
#include "training/train/options/deepspeed_flags.h"
#include "training/train/options/flag_checks.h"
#include "training/train/options/flags.h"
#include "training/train/options/loss_scale.h"
#include "training/train/options/strategy_flags.h"

namespace lockstep::train {
namespace {

// Flags without a value can only switch a feature on (or overlap off): they never undo a choice of
// the program.
void resolve_exchange(StrategyOptions& options, const Flags& flags) {
  options.sync_batchnorm = options.sync_batchnorm || flags.sync_batchnorm;
  options.find_unused_parameters = options.find_unused_parameters || flags.find_unused;
  options.static_graph = options.static_graph || flags.static_graph;
  options.overlap = options.overlap && !flags.no_overlap;
  if (flags.compression) {
    options.compression = parse_compression(*flags.compression);
  }
  if ((flags.powersgd_rank || flags.powersgd_start) &&
      options.compression != Compression::PowerSgd) {
    const char* flag = flags.powersgd_rank ? "--powersgd-rank" : "--powersgd-start";
    throw Error(ExitCode::Usage, fmt::format("cannot use {} without --compression powersgd", flag))
        .fact("requested",
              flags.compression ? "--compression " + *flags.compression : "--compression not given",
              "command line")
        .hint(fmt::format("--compression powersgd, or omit {}", flag));
  }
  options.powersgd_rank = flags.powersgd_rank.value_or(options.powersgd_rank);
  options.powersgd_start = flags.powersgd_start.value_or(options.powersgd_start);
  if (flags.bucket_mb) {
    options.bucket_bytes = static_cast<int64_t>(*flags.bucket_mb * (1 << 20));
  }
}

// Under -s deepspeed, the parameters themselves have the 16-bit type, and the optimizer keeps
// float32 master weights. With fp8 the parameters are bf16; the kernels round them to fp8.
void resolve_parameter_type(ZeroOptions& zero, const std::string& precision) {
  if (precision == "bf16" || precision == "fp16" || precision == "fp8") {
    zero.parameter_type = precision == "fp16" ? torch::kHalf : torch::kBFloat16;
  }
}

// --bucket-mb becomes a number of bytes in resolve_exchange() and of float32 elements here: 2^20 /
// 4 = 2^18.
void resolve_zero(StrategyOptions& options, const Flags& flags) {
  ZeroOptions& zero = options.zero;
  zero.stage = flags.zero_stage.value_or(zero.stage);
  if (zero.stage < 0 || zero.stage > 3) {
    throw Error(ExitCode::Usage, fmt::format("--zero-stage {} is out of range", zero.stage))
        .fact("expected", "0, 1, 2, 3")
        .hint("--zero-stage 2");
  }
  if (flags.bucket_mb) {
    zero.bucket_elements = static_cast<int64_t>(*flags.bucket_mb * (1 << 18));
  }
  resolve_parameter_type(zero, flags.precision.value_or(""));
}

// Converts "12h" to seconds.
int64_t parse_age(const std::string& text) {
  constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const std::optional<int64_t> number =
      text.empty() ? std::nullopt : find_integer(std::string_view(text).substr(0, text.size() - 1));
  for (const auto& [letter, seconds] : kUnits) {
    // The limit, ten thousand years in days, avoids an overflow.
    if (number && *number > 0 && *number < 3'650'000 && text.back() == letter) {
      return *number * seconds;
    }
  }
  throw Error(ExitCode::Usage, fmt::format("--keep-for \"{}\" is not a duration", text))
      .fact("requested", "--keep-for " + text, "command line")
      .hint("--keep-for 90s, 30m, 12h or 7d");
}

int parse_threads(const std::string& text) {
  if (text == "auto") {
    return -1;
  }
  const std::optional<int64_t> number = find_integer(text);
  if (!number || *number > 4096) {
    throw Error(ExitCode::Usage, fmt::format("--loader-threads \"{}\" is not a valid value", text))
        .fact("expected", "a number of threads up to 4096, 0 for none, or auto")
        .hint("--loader-threads auto");
  }
  require_count("--loader-threads", *number, 0, 4);
  return static_cast<int>(*number);
}

void refuse_both(const char* one, const std::string& other) {
  throw Error(ExitCode::Usage, fmt::format("{} conflicts with {}", one, other)).hint(one);
}

// Applies Horovod's variables, then the command line.
void resolve_horovod(StrategyOptions& options, const Flags& flags, const os::Environment& given) {
  // --verify-strategies without -s runs all strategies.
  if (!strategy::has(flags.strategy, &strategy::Properties::has_horovod_options) &&
      (flags.strategy || !flags.verify_strategies)) {
    return;
  }
  HorovodOptions& into = options.horovod;
  into = strategy::horovod::with_environment(into, given);
  if (flags.use_adasum && flags.reduction.value_or("adasum") != "adasum") {
    refuse_both("--use-adasum", fmt::format("--reduction {}", *flags.reduction));
  }
  if (flags.fp16_allreduce && flags.compression.value_or("fp16") != "fp16") {
    refuse_both("--fp16-allreduce", fmt::format("--compression {}", *flags.compression));
  }
  into.reduction = flags.use_adasum ? "adasum" : flags.reduction.value_or(into.reduction);
  if (flags.fp16_allreduce) {
    options.compression = Compression::Fp16;
  }
  if (flags.fusion_threshold_mb) {
    into.fusion_bytes = static_cast<int64_t>(*flags.fusion_threshold_mb * (1 << 20));
  }
  into.cycle_ms = flags.cycle_time_ms.value_or(into.cycle_ms);
  into.cache_capacity = flags.cache_capacity.value_or(into.cache_capacity);
  into.predivide_factor = flags.predivide_factor.value_or(into.predivide_factor);
  into.timeline = flags.timeline.value_or(into.timeline);
  into.autotune = into.autotune || flags.autotune;
}

}  // namespace

// From weak to strong: program, file, environment variables of Horovod, command line.
StrategyOptions resolve(StrategyOptions options,
                        const Flags& flags,
                        const os::Environment& environment) {
  lay_file_over(options, flags);
  resolve_exchange(options, flags);
  require_support(flags, Scope::Own);
  resolve_horovod(options, flags, environment);
  resolve_zero(options, flags);
  options.horovod.stall_warning = flags.stall_warning.value_or(options.horovod.stall_warning);
  return options;
}

// Checks run on the final values, regardless of their source, so that a program with invalid
// options fails in the same way as a command line.
TrainerOptions resolve(TrainerOptions options,
                       const Flags& flags,
                       int world_size,
                       const os::Environment& environment) {
  const auto take = [](auto& into, const auto& flag) {
    if (flag) {
      into = static_cast<std::decay_t<decltype(into)>>(*flag);
    }
  };
  if (flags.global_batch && flags.batch_size) {
    throw Error(ExitCode::Usage, "--global-batch conflicts with --batch-size")
        .fact("--global-batch", std::to_string(*flags.global_batch), "command line")
        .fact("--batch-size", fmt::format("{} per worker", *flags.batch_size), "command line")
        .hint(fmt::format("--global-batch {}", *flags.global_batch));
  }
  lay_file_over(options, flags, world_size);
  if (flags.batch_size) {
    require_count("--batch-size", *flags.batch_size, 1);
    options.global_batch = *flags.batch_size * world_size;
  }
  take(options.epochs, flags.epochs);
  take(options.steps, flags.steps);
  take(options.global_batch, flags.global_batch);
  take(options.accumulate, flags.accumulate);
  take(options.clip_norm, flags.clip_norm);
  take(options.precision, flags.precision);
  take(options.loss_scale, flags.loss_scale);
  take(options.ema, flags.ema);
  options.strategy = resolve(options.strategy, flags, environment);
  resolve_parameter_type(options.strategy.zero, options.precision);
  take(options.schedule, flags.schedule);
  take(options.warmup_steps, flags.warmup);
  options.warmup_epochs = flags.warmup ? 0 : options.warmup_epochs;
  take(options.seed, flags.seed);
  take(options.validate_every, flags.validate_every);
  take(options.checkpoint_every, flags.checkpoint_every);
  take(options.keep_checkpoints, flags.keep);
  take(options.checkpoint_async, flags.checkpoint_async);
  if (flags.keep_for) {
    options.keep_checkpoints_for = parse_age(*flags.keep_for);
  }
  if (flags.loader_threads) {
    options.loader_threads = parse_threads(*flags.loader_threads);
  }
  take(options.report_every, flags.report_every);
  if (flags.no_checkpoint) {
    require_alone("--no-checkpoint",
                  {{"--checkpoint-every", flags.checkpoint_every.has_value()},
                   {"--keep", flags.keep.has_value()},
                   {"--keep-for", flags.keep_for.has_value()}});
    options.checkpoint_every = -1;
  }
  if (flags.no_validation) {
    require_alone("--no-validation", {{"--validate-every", flags.validate_every.has_value()}});
    options.validate_every = -1;
  }
  if (flags.tail) {
    require_choice("--tail", *flags.tail, {"drop", "pad"});
    options.tail = *flags.tail == "drop" ? Tail::Drop : Tail::Pad;
  }
  require_choice("--precision", options.precision, {"fp32", "bf16", "fp16", "fp8"});
  LossScaler(options.loss_scale, options.precision, options.loss_scaling);
  if (!(options.ema >= 0 && options.ema < 1)) {
    throw Error(ExitCode::Usage, fmt::format("--ema {} is out of range", options.ema))
        .fact("expected", "a decay from 0 (no average) to below 1")
        .hint("--ema 0.999");
  }
  require_choice("--schedule", options.schedule, {"constant", "step", "cosine"});
  require_count("--epochs", options.epochs, 1);
  require_count("--steps", options.steps, 0);
  require_count("--global-batch", options.global_batch, 1);
  require_count("--accumulate", options.accumulate, 1);
  require_count("--warmup", options.warmup_steps, 0);
  // -1 (never) is allowed only in the options of the program; users have --no-validation and
  // --no-checkpoint.
  require_count("--validate-every", options.validate_every, flags.validate_every ? 1 : -1, 100);
  require_count(
      "--checkpoint-every", options.checkpoint_every, flags.checkpoint_every ? 1 : -1, 100);
  require_count("--keep", options.keep_checkpoints, 1, 3);
  // -1 (from the allocated cores) is allowed only in the options of the program; users have "auto".
  require_count("--loader-threads", options.loader_threads, -1, 4);
  if (options.global_batch < world_size * options.accumulate) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot split {} samples among {} workers x {} micro-batches",
                            options.global_batch,
                            world_size,
                            options.accumulate))
        .fact("--global-batch", std::to_string(options.global_batch))
        .fact("workers", std::to_string(world_size))
        .fact("--accumulate", std::to_string(options.accumulate))
        .hint(fmt::format("--global-batch {}", world_size * options.accumulate));
  }
  return options;
}

}  // namespace lockstep::train

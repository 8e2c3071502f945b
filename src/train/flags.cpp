// SPDX-License-Identifier: Apache-2.0
#include "train/flags.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "contract/strategy_kind.h"
#include "lockstep/error.h"
#include "strategy/horovod_options.h"
#include "train/loss_scale.h"
#include "train/mirrored_flags.h"

namespace lockstep::train {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0 done   64 usage   69 a service or peer could not be had   74 a file could not be read or\n"
    "  written   75 stopped at a checkpoint or a peer was lost: start again with --resume auto";

// The word as the user would have to type it: one of `choices`, else an Error.
void require_choice(const std::string& flag,
                    const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("cannot use {} '{}'", flag, value))
      .fact("there are", join(choices, ", "))
      .hint(fmt::format("{} {}", flag, find_closest(value, choices).value_or(choices.front())));
}

void add_training(CLI::App& app, Flags& flags) {
  const char* group = "Training";
  app.add_option("-s,--strategy",
                 flags.strategy,
                 fmt::format("How the gang trains: {} [ddp; single for one worker]",
                             join(contract::strategy_names(), ", ")))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--epochs", flags.epochs, "Passes over the training data")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--steps", flags.steps, "Ends after this many optimizer steps")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--global-batch", flags.global_batch, "Samples of all workers in one step")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--batch-size", flags.batch_size, "The same per worker; multiplied out")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--accumulate,--backward-passes-per-step",
                 flags.accumulate,
                 "Micro-batches of a step on each worker")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--clip,--clip-norm", flags.clip_norm, "Clips the norm of the whole gradient")
      ->type_name("NORM")
      ->group(group);
  app.add_option("--precision", flags.precision, "What the model computes in [fp32]")
      ->type_name("fp32|bf16|fp16")
      ->group(group);
  app.add_option("--loss-scale",
                 flags.loss_scale,
                 "Keeps small gradients alive: none, dynamic, or a number [dynamic with fp16]")
      ->type_name("SCALE")
      ->group(group);
  app.add_option("--ema", flags.ema, "Evaluates and saves a moving average of the weights")
      ->type_name("DECAY")
      ->group(group);
  app.add_flag("--sync-batchnorm",
               flags.sync_batchnorm,
               "Batch norm takes its statistics over all workers")
      ->group(group);
  app.add_flag("--recompute",
               flags.recompute,
               "Computes activations again in backward instead of keeping them")
      ->group(group);
  app.add_flag(
         "--verify-strategies",
         flags.verify_strategies,
         "Trains --steps [50] under every strategy on 1 to all workers, shows how far each is "
         "from one process, and ends with 1 if one is too far")
      ->group(group);
  app.add_option("--tail",
                 flags.tail,
                 "Samples that do not fill the last batch: drop them, or pad with others")
      ->type_name("drop|pad")
      ->group(group);
  app.add_option("--seed", flags.seed, "Of weights, order and dropout")
      ->type_name("NUMBER")
      ->group(group);
  app.add_option(
         "--early-stop", flags.early_stop, "Ends when the test loss has not fallen so often")
      ->type_name("COUNT")
      ->group(group);
}

void add_exchange(CLI::App& app, Flags& flags) {
  const char* group = "Exchange of gradients";
  app.add_option("--compression",
                 flags.compression,
                 "Makes gradients smaller on their way: none, fp16, bf16, powersgd (ddp only)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--powersgd-rank", flags.powersgd_rank, "Of the matrices that are sent [1]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--powersgd-start", flags.powersgd_start, "Steps before PowerSGD takes over [10]")
      ->type_name("STEPS")
      ->group(group);
  app.add_option("--bucket-mb", flags.bucket_mb, "Size of a packet of gradients under ddp [25]")
      ->type_name("MIB")
      ->group(group);
  app.add_flag("--no-overlap", flags.no_overlap, "Sends gradients after backward, not during it")
      ->group(group);
  app.add_flag("--find-unused-parameters",
               flags.find_unused,
               "ddp: parameters may take no part in some steps")
      ->group(group);
  app.add_flag(
         "--static-graph", flags.static_graph, "ddp: the same parameters take part in every step")
      ->group(group);
  app.add_option(
         "--replicas", flags.replicas, "mirrored: copies of the model in one process [one per GPU]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--auto-shard",
                 flags.auto_shard,
                 "mirrored: how the data are shared out: data, file, auto or off [data]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--collective", flags.collective, "mirrored: ring (gloo), nccl or auto [auto]")
      ->type_name("NAME")
      ->group(group);
}

void add_horovod(CLI::App& app, HorovodFlags& flags) {
  const char* group = "Horovod (as HOROVOD_...)";
  app.add_option("--reduction", flags.reduction, "average, sum or adasum [average]")
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--fp16-allreduce", flags.fp16_allreduce, "As --compression fp16")->group(group);
  app.add_flag("--use-adasum", flags.use_adasum, "As --reduction adasum")->group(group);
  app.add_option("--fusion-threshold-mb",
                 flags.fusion_threshold_mb,
                 "Size of the buffer for small tensors; 0: each travels alone [128]")
      ->type_name("MIB")
      ->group(group);
  app.add_option("--cycle-time-ms", flags.cycle_time_ms, "Between two rounds of agreement [1]")
      ->type_name("MS")
      ->group(group);
  app.add_option("--cache-capacity",
                 flags.cache_capacity,
                 "Tensors that need no agreement in full again [1024]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--gradient-predivide-factor",
                 flags.predivide_factor,
                 "Divides gradients in part before the sum [1]")
      ->type_name("FACTOR")
      ->group(group);
  app.add_option("--timeline-filename", flags.timeline, "Writes a Chrome trace of every tensor")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--autotune", flags.autotune, "Looks for the best buffer and cycle while training")
      ->group(group);
}

void add_optimizer(CLI::App& app, Flags& flags) {
  const char* group = "Optimizer";
  app.add_option("--optimizer", flags.optimizer, "sgd, adam or adamw")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--lr", flags.lr, "Learning rate")->type_name("RATE")->group(group);
  app.add_option("--scale-lr",
                 flags.scale_lr,
                 "Times the number of workers, or its root: none, linear, sqrt [none]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--momentum", flags.momentum, "Of sgd")->type_name("FACTOR")->group(group);
  app.add_option("--weight-decay", flags.weight_decay, "")->type_name("FACTOR")->group(group);
  app.add_option("--schedule", flags.schedule, "Learning rate over time: constant, step, cosine")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--warmup", flags.warmup, "Steps over which the learning rate rises")
      ->type_name("STEPS")
      ->group(group);
}

void add_files(CLI::App& app, Flags& flags) {
  const char* group = "Files";
  app.add_option("--data-dir", flags.data_dir, "Data sets [$LOCKSTEP_DATA_DIR, else ./data]")
      ->type_name("DIR")
      ->group(group);
  app.add_option(
         "--run-dir", flags.run_dir, "Events and checkpoints [from lockstep run, else ./runs/...]")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--resume",
                 flags.resume,
                 "none, auto (the newest good checkpoint of the run directory), or a checkpoint "
                 "[none; auto when restarted]")
      ->type_name("WHAT")
      ->group(group);
  app.add_option(
         "--checkpoint-every", flags.checkpoint_every, "Steps between checkpoints [an epoch]")
      ->type_name("STEPS")
      ->group(group);
  app.add_option("--keep", flags.keep, "Checkpoints kept beside the best")
      ->type_name("COUNT")
      ->group(group);
  app.add_flag("--no-checkpoint", flags.no_checkpoint, "Writes none")->group(group);
  app.add_option("--validate-every", flags.validate_every, "Steps between validations [an epoch]")
      ->type_name("STEPS")
      ->group(group);
  app.add_flag("--no-validation", flags.no_validation, "Trains only")->group(group);
}

void add_machine(CLI::App& app, Flags& flags) {
  const char* group = "Machine";
  app.add_option("--device", flags.device, "auto, cpu or cuda [auto]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--transport",
                 flags.transport,
                 "auto, shared-memory, gloo, node-first or mpi [auto: mpi under mpirun and srun "
                 "--mpi=pmix, shared-memory on one node, node-first on even nodes, else gloo]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--conv",
                 flags.convolution,
                 "Convolutions on the CPU: onednn, im2col, or auto: the faster on the first batch")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--loader-threads", flags.loader_threads, "Threads that make batches; 0: none")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--timeout", flags.timeout, "How long a worker waits for another [600]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--stall-warning",
                 flags.stall_warning,
                 "Waits so long for other workers before it says who is missing; 0: never [10]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--report-every", flags.report_every, "Between lines without a terminal")
      ->type_name("SECONDS")
      ->group(group);
}

void add_program(CLI::App& app, Flags& flags, const Program& program) {
  for (const ProgramOption& option : program.options) {
    std::string& value = flags.program[option.name];
    value = option.value;
    if (option.value == "no") {
      app.add_flag_callback(
             option.name, [&value] { value = "yes"; }, option.help)
          ->group("This program");
    } else {
      app.add_option(option.name, value, fmt::format("{} [{}]", option.help, option.value))
          ->type_name("NAME")
          ->group("This program");
    }
  }
}

// CLI11 keeps what it cannot place; the first such word is the user's mistake.
[[noreturn]] void throw_unknown(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string bare = word.substr(0, word.find('='));
  const auto closest = find_closest(bare, names);
  throw Error(ExitCode::Usage, fmt::format("cannot understand '{}'", word))
      .fact("found", word, "command line")
      .hint(closest ? *closest : fmt::format("{} --help", app.get_name()));
}

void require_positive(const char* flag, int64_t value, int64_t least = 1) {
  if (value < least) {
    throw Error(ExitCode::Usage, fmt::format("cannot train with {} {}", flag, value))
        .fact("expected", fmt::format("a whole number of at least {}", least))
        .fact("found", std::to_string(value), "command line")
        .hint(fmt::format("{} {}", flag, std::max<int64_t>(least, 32)));
  }
}

void resolve_exchange(StrategyOptions& options, const Flags& flags) {
  options.sync_batchnorm = options.sync_batchnorm || flags.sync_batchnorm;
  options.find_unused_parameters = options.find_unused_parameters || flags.find_unused;
  options.static_graph = options.static_graph || flags.static_graph;
  options.overlap = options.overlap && !flags.no_overlap;
  if (flags.compression) {
    options.compression = parse_compression(*flags.compression);
  }
  options.powersgd_rank = flags.powersgd_rank.value_or(options.powersgd_rank);
  options.powersgd_start = flags.powersgd_start.value_or(options.powersgd_start);
  if (flags.bucket_mb) {
    options.bucket_bytes = static_cast<int64_t>(*flags.bucket_mb * (1 << 20));
  }
}

// The first flag that only -s horovod understands, as it was typed.
std::optional<std::string> find_horovod_flag(const HorovodFlags& flags) {
  const std::pair<bool, const char*> given[] = {
      {flags.reduction.has_value(), "--reduction"},
      {flags.fp16_allreduce, "--fp16-allreduce"},
      {flags.use_adasum, "--use-adasum"},
      {flags.fusion_threshold_mb.has_value(), "--fusion-threshold-mb"},
      {flags.cycle_time_ms.has_value(), "--cycle-time-ms"},
      {flags.cache_capacity.has_value(), "--cache-capacity"},
      {flags.predivide_factor.has_value(), "--gradient-predivide-factor"},
      {flags.timeline.has_value(), "--timeline-filename"},
      {flags.autotune, "--autotune"}};
  for (const auto& [is_given, name] : given) {
    if (is_given) {
      return name;
    }
  }
  return std::nullopt;
}

void refuse_both(const char* one, const std::string& other) {
  throw Error(ExitCode::Usage, fmt::format("cannot take both {} and {}", one, other)).hint(one);
}

// Horovod's variables, and the flags over them.
void resolve_horovod(StrategyOptions& options, const Flags& flags, const os::Environment& given) {
  const HorovodFlags& horovod = flags.horovod;
  // --verify-strategies tries horovod among others.
  if (flags.strategy != "horovod" && !flags.verify_strategies) {
    if (const auto flag = find_horovod_flag(horovod)) {
      throw Error(ExitCode::Usage, fmt::format("cannot use {} without -s horovod", *flag))
          .fact("asked",
                flags.strategy ? fmt::format("-s {}", *flags.strategy) : "no -s",
                "command line")
          .hint(fmt::format("-s horovod, or without {}", *flag));
    }
    return;
  }
  HorovodOptions& into = options.horovod;
  into = strategy::horovod::with_environment(into, given);
  if (horovod.use_adasum && horovod.reduction.value_or("adasum") != "adasum") {
    refuse_both("--use-adasum", fmt::format("--reduction {}", *horovod.reduction));
  }
  if (horovod.fp16_allreduce && flags.compression.value_or("fp16") != "fp16") {
    refuse_both("--fp16-allreduce", fmt::format("--compression {}", *flags.compression));
  }
  into.reduction = horovod.use_adasum ? "adasum" : horovod.reduction.value_or(into.reduction);
  if (horovod.fp16_allreduce) {
    options.compression = Compression::Fp16;
  }
  if (horovod.fusion_threshold_mb) {
    into.fusion_bytes = static_cast<int64_t>(*horovod.fusion_threshold_mb * (1 << 20));
  }
  into.cycle_ms = horovod.cycle_time_ms.value_or(into.cycle_ms);
  into.cache_capacity = horovod.cache_capacity.value_or(into.cache_capacity);
  into.predivide_factor = horovod.predivide_factor.value_or(into.predivide_factor);
  into.timeline = horovod.timeline.value_or(into.timeline);
  into.autotune = into.autotune || horovod.autotune;
}

}  // namespace

std::optional<Flags> parse_flags(int argc,
                                 const char* const* argv,
                                 const Program& program,
                                 std::string& help) {
  Flags flags;
  const std::string name =
      std::filesystem::path(argc > 0 ? argv[0] : "program").filename().string();
  CLI::App app(program.about, name);
  app.footer(kExitCodes);
  app.allow_extras();
  app.get_formatter()->column_width(34);
  add_program(app, flags, program);
  add_training(app, flags);
  add_exchange(app, flags);
  add_horovod(app, flags.horovod);
  add_optimizer(app, flags);
  add_files(app, flags);
  add_machine(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& fault) {
    throw Error(ExitCode::Usage, "cannot read the command line")
        .fact("reason", fault.what())
        .hint(fmt::format("{} --help", name));
  }
  if (!app.remaining().empty()) {
    throw_unknown(app, app.remaining().front());
  }
  for (const ProgramOption& option : program.options) {
    if (!option.choices.empty()) {
      require_choice(option.name, flags.program.at(option.name), option.choices);
    }
  }
  flags.device = flags.device == "gpu" ? "cuda" : flags.device;
  require_choice("--device", flags.device, {"auto", "cpu", "cuda"});
  require_choice("--auto-shard", flags.auto_shard, {"data", "file", "auto", "off"});
  require_choice("--collective", flags.collective, {"auto", "ring", "nccl"});
  if (flags.precision) {
    require_choice("--precision", *flags.precision, {"fp32", "bf16", "fp16"});
  }
  require_choice("--conv", flags.convolution, {"auto", "onednn", "im2col"});
  if (flags.strategy) {
    contract::parse_strategy(*flags.strategy);
  }
  settle_mirrored_flags(flags);
  parse_lr_scaling(flags.scale_lr);
  return flags;
}

StrategyOptions resolve(StrategyOptions options,
                        const Flags& flags,
                        const os::Environment& environment) {
  resolve_exchange(options, flags);
  resolve_horovod(options, flags, environment);
  options.horovod.stall_warning = flags.stall_warning.value_or(options.horovod.stall_warning);
  return options;
}

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
    throw Error(ExitCode::Usage, "cannot take both --global-batch and --batch-size")
        .fact("--global-batch", std::to_string(*flags.global_batch), "command line")
        .fact("--batch-size", fmt::format("{} per worker", *flags.batch_size), "command line")
        .hint(fmt::format("--global-batch {}", *flags.global_batch));
  }
  if (flags.batch_size) {
    require_positive("--batch-size", *flags.batch_size);
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
  take(options.schedule, flags.schedule);
  take(options.warmup_steps, flags.warmup);
  take(options.seed, flags.seed);
  take(options.validate_every, flags.validate_every);
  take(options.checkpoint_every, flags.checkpoint_every);
  take(options.keep_checkpoints, flags.keep);
  take(options.loader_threads, flags.loader_threads);
  take(options.report_every, flags.report_every);
  if (flags.no_checkpoint) {
    options.checkpoint_every = -1;
  }
  if (flags.no_validation) {
    options.validate_every = -1;
  }
  if (flags.tail) {
    require_choice("--tail", *flags.tail, {"drop", "pad"});
    options.tail = *flags.tail == "drop" ? Tail::Drop : Tail::Pad;
  }
  require_choice("--precision", options.precision, {"fp32", "bf16", "fp16"});
  LossScaler(options.loss_scale, options.precision);
  if (options.ema < 0 || options.ema >= 1) {
    throw Error(ExitCode::Usage, fmt::format("cannot average weights with --ema {}", options.ema))
        .fact("wanted", "a decay from 0 (none) to below 1")
        .hint("--ema 0.999");
  }
  require_choice("--schedule", options.schedule, {"constant", "step", "cosine"});
  require_positive("--epochs", options.epochs);
  require_positive("--steps", options.steps, 0);
  require_positive("--global-batch", options.global_batch);
  require_positive("--accumulate", options.accumulate);
  require_positive("--warmup", options.warmup_steps, 0);
  require_positive("--validate-every", options.validate_every, -1);
  require_positive("--checkpoint-every", options.checkpoint_every, -1);
  require_positive("--keep", options.keep_checkpoints);
  require_positive("--loader-threads", options.loader_threads, 0);
  if (options.global_batch < world_size * options.accumulate) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot share {} samples among {} workers x {} micro-batches",
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

// SPDX-License-Identifier: Apache-2.0
//
// The options of every training program, by group. An absent option stays std::nullopt: resolve()
// distinguishes "not given" from any value, because options of the program and ds_config.json come
// before defaults. Checks in three places: type and choices here, numbers in strategy_flags.cpp,
// combinations with the options of the program in resolve_flags.cpp.
#include "training/train/options/flags.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "lockstep/error.h"
#include "training/strategy/properties.h"
#include "training/train/options/deepspeed_flags.h"
#include "training/train/options/flag_checks.h"
#include "training/train/options/mirrored_flags.h"
#include "training/train/options/strategy_flags.h"

namespace lockstep::train {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    success\n"
    "  64   invalid or conflicting options\n"
    "  69   a service or peer is unavailable\n"
    "  70   internal error\n"
    "  74   a file could not be read or written\n"
    "  75   stopped at a checkpoint, or a peer was lost: start again with --resume auto\n"
    "  130  stopped at a checkpoint by Ctrl-C";

// CLI11 reads -1 and numbers with more than 64 bits as the maximum of uint64_t.
std::string find_seed_fault(const std::string& text) {
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 0);
  return text.starts_with('-') || errno == ERANGE
             ? fmt::format("--seed must be an integer from 0 to {}",
                           std::numeric_limits<uint64_t>::max())
             : "";
}

// The strategies that an option applies to: "ddp, deepspeed".
std::string strategies_with(strategy::Property property) {
  return join(strategy::names_with(property), ", ");
}

constexpr const char* kTraining = "Training";

void add_training(CLI::App& app, Flags& flags) {
  const char* group = kTraining;
  app.add_option("-s,--strategy",
                 flags.strategy,
                 fmt::format("Training strategy: {} [{}; {} for one worker]",
                             join(contract::strategy_names(), ", "),
                             strategy::default_name(2),
                             strategy::default_name(1)))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--epochs", flags.epochs, "Number of passes over the training data")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--steps", flags.steps, "Maximum number of optimizer steps")
      ->type_name("COUNT")
      ->group(group);
  app.add_option(
         "--global-batch", flags.global_batch, "Samples of all workers in one optimizer step")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--batch-size", flags.batch_size, "Samples of each worker in one optimizer step")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--accumulate,--backward-passes-per-step",
                 flags.accumulate,
                 "Micro-batches per optimizer step on each worker")
      ->type_name("COUNT")
      ->group(group);
  app.add_option(
         "--clip,--clip-norm", flags.clip_norm, "Clip the norm of the gradient to this value")
      ->type_name("NORM")
      ->group(group);
}

// The second half of the group, in the order of the help text.
void add_numerics(CLI::App& app, Flags& flags) {
  const char* group = kTraining;
  app.add_option("--precision", flags.precision, "Precision of the computation [fp32]")
      ->type_name("fp32|bf16|fp16|fp8")
      ->group(group);
  app.add_option("--loss-scale",
                 flags.loss_scale,
                 "Loss scaling: none, dynamic, or a fixed factor [dynamic with fp16, otherwise "
                 "none]")
      ->type_name("SCALE")
      ->group(group);
  app.add_option(
         "--ema", flags.ema, "Evaluate and save a moving average of the weights with this decay")
      ->type_name("DECAY")
      ->group(group);
  app.add_flag(
         "--sync-batchnorm", flags.sync_batchnorm, "Compute batch norm statistics over all workers")
      ->group(group);
  app.add_flag("--recompute", flags.recompute, "Recompute activations in backward to save memory")
      ->group(group);
  app.add_flag("--verify-strategies",
               flags.verify_strategies,
               "Train --steps [50] steps under every strategy with 1 to all workers, compare the "
               "result with one process, and exit with 1 if one differs")
      ->group(group);
  app.add_option(
         "--tail", flags.tail, "Treatment of an incomplete last batch: drop its samples, or pad it")
      ->type_name("drop|pad")
      ->group(group);
  app.add_option("--seed", flags.seed, "Random seed of weights, sample order and dropout")
      ->type_name("NUMBER")
      ->check(find_seed_fault)
      ->group(group);
  app.add_option("--early-stop",
                 flags.early_stop,
                 "Stop after this many evaluations without a lower test loss")
      ->type_name("COUNT")
      ->group(group);
}

// Help texts name the strategies by their properties, not literally: a new strategy appears in the
// help of every option that it supports.
void add_exchange(CLI::App& app, Flags& flags) {
  const char* group = "Gradient exchange";
  const std::string replicated = strategies_with(&strategy::Properties::has_replicas_in_process);
  app.add_option("--compression",
                 flags.compression,
                 fmt::format("Gradient compression: none, fp16, bf16, powersgd ({} only) [none]",
                             strategies_with(&strategy::Properties::has_powersgd)))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--powersgd-rank", flags.powersgd_rank, "Rank of the PowerSGD matrices [1]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option(
         "--powersgd-start", flags.powersgd_start, "Uncompressed steps before PowerSGD starts [10]")
      ->type_name("STEPS")
      ->group(group);
  app.add_option("--bucket-mb", flags.bucket_mb, "Size of a gradient bucket [25]")
      ->type_name("MIB")
      ->group(group);
  app.add_flag(
         "--no-overlap", flags.no_overlap, "Exchange gradients after backward instead of during it")
      ->group(group);
  app.add_flag("--find-unused-parameters",
               flags.find_unused,
               strategies_with(&strategy::Properties::has_find_unused) +
                   ": allow parameters that are not used in every step")
      ->group(group);
  app.add_flag("--static-graph",
               flags.static_graph,
               strategies_with(&strategy::Properties::has_static_graph) +
                   ": assume that every step uses the same parameters")
      ->group(group);
  app.add_option(
         "--replicas", flags.replicas, replicated + ": model replicas in one process [one per GPU]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--auto-shard",
                 flags.auto_shard,
                 replicated + ": sharding of the data: data, file, auto or off [data]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--zero-stage",
                 flags.zero_stage,
                 strategies_with(&strategy::Properties::has_zero_stages) +
                     ": partition nothing (0), the optimizer state (1), also gradients (2), "
                     "also parameters (3) [0]")
      ->type_name("0|1|2|3")
      ->group(group);
  app.add_option("--collective",
                 flags.collective,
                 replicated + ": communication by ring (gloo), nccl or auto [auto]")
      ->type_name("NAME")
      ->group(group);
}

// Names are those of horovodrun, so that scripts can be reused.
void add_horovod(CLI::App& app, HorovodFlags& flags) {
  const char* group = "Horovod (override HOROVOD_... variables)";
  const std::string owner = strategies_with(&strategy::Properties::has_horovod_options);
  app.add_option(
         "--reduction", flags.reduction, "Reduction of gradients: average, sum or adasum [average]")
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--fp16-allreduce",
               flags.fp16_allreduce,
               fmt::format("Alias of --compression fp16 ({})", owner))
      ->group(group);
  app.add_flag(
         "--use-adasum", flags.use_adasum, fmt::format("Alias of --reduction adasum ({})", owner))
      ->group(group);
  app.add_option("--fusion-threshold-mb",
                 flags.fusion_threshold_mb,
                 "Size of the fusion buffer; 0: send each tensor separately [128]")
      ->type_name("MIB")
      ->group(group);
  app.add_option(
         "--cycle-time-ms", flags.cycle_time_ms, "Cycle time between two rounds of negotiation [1]")
      ->type_name("MS")
      ->group(group);
  app.add_option("--cache-capacity",
                 flags.cache_capacity,
                 "Capacity of the response cache in tensors; 0: no cache [1024]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--gradient-predivide-factor",
                 flags.predivide_factor,
                 "Divisor of gradients before the sum; the rest follows after it [1]")
      ->type_name("FACTOR")
      ->group(group);
  app.add_option(
         "--timeline-filename", flags.timeline, "Write a Chrome trace of all tensors to this file")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--autotune", flags.autotune, "Tune fusion buffer and cycle time during training")
      ->group(group);
}

// Python programs of DeepSpeed add the same two options with deepspeed.add_config_arguments().
void add_deepspeed(CLI::App& app, Flags& flags) {
  const char* group = "DeepSpeed";
  const std::string owner = strategies_with(&strategy::Properties::has_deepspeed_config);
  app.add_flag("--deepspeed", flags.deepspeed, fmt::format("Alias of -s {0} ({0})", owner))
      ->group(group);
  app.add_option("--deepspeed_config,--deepspeed-config",
                 flags.deepspeed_config,
                 fmt::format("DeepSpeed configuration file (ds_config.json); implies -s {}", owner))
      ->type_name("FILE")
      ->group(group);
}

void add_optimizer(CLI::App& app, Flags& flags) {
  const char* group = "Optimizer";
  app.add_option(
         "--optimizer", flags.optimizer, "Optimizer: sgd, adam, adamw, lamb, adagrad or muon")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--lr", flags.lr, "Learning rate")->type_name("RATE")->group(group);
  app.add_option("--scale-lr",
                 flags.scale_lr,
                 "Scale the learning rate with the number of workers: none, linear, sqrt [none]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--momentum", flags.momentum, "Momentum of sgd")
      ->type_name("FACTOR")
      ->group(group);
  app.add_option("--weight-decay", flags.weight_decay, "Weight decay")
      ->type_name("FACTOR")
      ->group(group);
  app.add_option("--schedule", flags.schedule, "Learning rate schedule: constant, step, cosine")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--warmup", flags.warmup, "Steps of linear learning rate warm-up")
      ->type_name("STEPS")
      ->group(group);
}

// --checkpoint-async and its opposite set one optional value, so that "not given" stays distinct.
void add_files(CLI::App& app, Flags& flags) {
  const char* group = "Files";
  app.add_option(
         "--data-dir", flags.data_dir, "Directory of data sets [$LOCKSTEP_DATA_DIR, or ./data]")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--run-dir",
                 flags.run_dir,
                 "Directory of events and checkpoints [that of lockstep run, or ./runs/...]")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--resume",
                 flags.resume,
                 "Checkpoint to resume from: none, auto (the newest undamaged one of the run "
                 "directory), or a directory [none; auto after a restart]")
      ->type_name("WHAT")
      ->group(group);
  app.add_option("--checkpoint-every",
                 flags.checkpoint_every,
                 "Steps between checkpoints, in addition to the end of each epoch")
      ->type_name("STEPS")
      ->group(group);
  app.add_option("--keep", flags.keep, "Number of checkpoints to keep in addition to the best [3]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option(
         "--keep-for", flags.keep_for, "Also keep checkpoints younger than this: 90s, 30m, 12h, 7d")
      ->type_name("TIME")
      ->group(group);
  app.add_flag_callback(
         "--checkpoint-async",
         [&flags] { flags.checkpoint_async = true; },
         "Write checkpoints during training [on]")
      ->group(group);
  app.add_flag_callback(
         "--no-checkpoint-async",
         [&flags] { flags.checkpoint_async = false; },
         "Suspend training until each checkpoint is on disk")
      ->group(group);
  app.add_flag("--no-checkpoint", flags.no_checkpoint, "Write no checkpoints and no final weights")
      ->group(group);
  app.add_option("--validate-every", flags.validate_every, "Steps between validations [one epoch]")
      ->type_name("STEPS")
      ->group(group);
  app.add_flag("--no-validation", flags.no_validation, "Train without validation")->group(group);
}

void add_machine(CLI::App& app, Flags& flags) {
  const char* group = "Machine";
  app.add_option("--device", flags.device, "Device: auto, cpu or cuda [auto]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--transport",
                 flags.transport,
                 "Communication backend: auto, shared-memory, gloo, node-first, mpi or nccl "
                 "[auto: nccl between GPUs; otherwise mpi under mpirun and srun --mpi=pmix, "
                 "shared-memory on one node, node-first on nodes with equal numbers of workers, "
                 "otherwise gloo]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--conv",
                 flags.convolution,
                 "Kernel for CPU convolutions: onednn, im2col, or auto (the faster on the first "
                 "batch) [auto]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--cuda-graph",
                 flags.cuda_graph,
                 "Record a step as a CUDA graph and replay it: on, off, or auto (if possible) "
                 "[auto]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--loader-threads,--num-workers",
                 flags.loader_threads,
                 "Threads that prepare batches; 0: none; auto: from the allocated cores")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--timeout", flags.timeout, "Maximum time to wait for other workers [600]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--stall-warning",
                 flags.stall_warning,
                 "Waiting time before a warning about stalled workers; 0: never [10]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--report-every",
                 flags.report_every,
                 "Time between progress lines if the output is not a terminal")
      ->type_name("SECONDS")
      ->group(group);
}

// A default of "no" declares a flag; every other default an option with a value.
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

// An integer beyond 64 bits becomes the nearest one that fits, for require_count() to reject with
// its range: older versions of CLI11 do the same, newer ones throw an error without one.
std::string clamp_to_int64(std::string word) {
  int64_t value = 0;
  const char* begin = word.data() + (word.starts_with('+') ? 1 : 0);
  const char* end = word.data() + word.size();
  const auto [stop, fault] = std::from_chars(begin, end, value);
  if (fault != std::errc::result_out_of_range || stop != end) {
    return word;
  }
  return std::to_string(word.starts_with('-') ? std::numeric_limits<int64_t>::min()
                                              : std::numeric_limits<int64_t>::max());
}

// Options are recognized by the type name in --help, which is the same for all integers.
void clamp_integers(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* each) {
         return each->get_type_name() == "COUNT" || each->get_type_name() == "STEPS";
       })) {
    option->transform(clamp_to_int64);
  }
}

// CLI11 collects unknown words. The first one is reported.
[[noreturn]] void throw_unknown(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string bare = word.substr(0, word.find('='));
  const auto closest = find_closest(bare, names);
  throw Error(ExitCode::Usage, fmt::format("unknown argument '{}'", word))
      .fact("found", word, "command line")
      .hint(closest ? *closest : fmt::format("{} --help", app.get_name()));
}

}  // namespace

// Order after parsing: choices first, since later checks compare their texts; then the file, which
// can set strategy and precision; then checks that depend on the strategy.
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
  add_numerics(app, flags);
  add_exchange(app, flags);
  add_horovod(app, flags.horovod);
  add_deepspeed(app, flags);
  add_optimizer(app, flags);
  add_files(app, flags);
  add_machine(app, flags);
  clamp_integers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& fault) {
    throw Error(ExitCode::Usage, "invalid command line")
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
    require_choice("--precision", *flags.precision, {"fp32", "bf16", "fp16", "fp8"});
  }
  require_choice("--cuda-graph", flags.cuda_graph, {"auto", "on", "off"});
  require_choice("--conv", flags.convolution, {"auto", "onednn", "im2col"});
  if (flags.strategy) {
    contract::parse_strategy(*flags.strategy);
  }
  settle_deepspeed_flags(flags);
  require_numbers(flags);
  settle_mirrored_flags(flags);
  require_strategy_flags(flags);
  parse_lr_scaling(flags.scale_lr);
  return flags;
}

}  // namespace lockstep::train

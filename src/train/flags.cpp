// SPDX-License-Identifier: Apache-2.0
#include "train/flags.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <limits>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "contract/strategy_kind.h"
#include "lockstep/error.h"
#include "train/deepspeed_flags.h"
#include "train/flag_checks.h"
#include "train/mirrored_flags.h"
#include "train/strategy_flags.h"

namespace lockstep::train {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0 done   64 usage   69 a service or peer could not be had   74 a file could not be read or\n"
    "  written   75 stopped at a checkpoint or a peer was lost: start again with --resume auto\n"
    "  130 stopped at a checkpoint by Ctrl-C";

// CLI11 reads -1 and what is longer than 64 bits as the largest number there is.
std::string find_seed_fault(const std::string& text) {
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 0);
  return text.starts_with('-') || errno == ERANGE
             ? fmt::format("--seed is a whole number from 0 to {}",
                           std::numeric_limits<uint64_t>::max())
             : "";
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
      ->check(find_seed_fault)
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
               "ddp, deepspeed: parameters may take no part in some steps")
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
  app.add_option("--zero-stage",
                 flags.zero_stage,
                 "deepspeed: what is cut up: 0 nothing, 1 optimizer state, 2 and gradients, 3 and "
                 "parameters [0]")
      ->type_name("0|1|2|3")
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

void add_deepspeed(CLI::App& app, Flags& flags) {
  const char* group = "DeepSpeed";
  app.add_flag("--deepspeed", flags.deepspeed, "As -s deepspeed")->group(group);
  app.add_option("--deepspeed_config,--deepspeed-config",
                 flags.deepspeed_config,
                 "DeepSpeed's configuration, ds_config.json; implies -s deepspeed")
      ->type_name("FILE")
      ->group(group);
}

void add_optimizer(CLI::App& app, Flags& flags) {
  const char* group = "Optimizer";
  app.add_option("--optimizer", flags.optimizer, "sgd, adam, adamw, lamb or adagrad")
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
  app.add_option("--checkpoint-every",
                 flags.checkpoint_every,
                 "Also saves every so many steps, not only at the end of an epoch")
      ->type_name("STEPS")
      ->group(group);
  app.add_option("--keep", flags.keep, "Checkpoints kept beside the best [3]")
      ->type_name("COUNT")
      ->group(group);
  app.add_option(
         "--keep-for", flags.keep_for, "Also keeps those younger than this: 90s, 30m, 12h, 7d")
      ->type_name("TIME")
      ->group(group);
  app.add_flag_callback(
         "--checkpoint-async",
         [&flags] { flags.checkpoint_async = true; },
         "Writes checkpoints beside training [on]")
      ->group(group);
  app.add_flag_callback(
         "--no-checkpoint-async",
         [&flags] { flags.checkpoint_async = false; },
         "Training waits until they are on the disk")
      ->group(group);
  app.add_flag("--no-checkpoint", flags.no_checkpoint, "Writes none, and no weights at the end")
      ->group(group);
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
  app.add_option(
         "--transport",
         flags.transport,
         "auto, shared-memory, gloo, node-first, mpi or nccl [auto: nccl between GPUs; else "
         "mpi under mpirun and srun --mpi=pmix, shared-memory on one node, node-first on "
         "even nodes, else gloo]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--conv",
                 flags.convolution,
                 "Convolutions on the CPU: onednn, im2col, or auto: the faster on the first batch")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--cuda-graph",
                 flags.cuda_graph,
                 "Records a whole step on the GPU and plays it again: on, off, or auto: where it "
                 "can be done [auto]")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--loader-threads,--num-workers",
                 flags.loader_threads,
                 "Threads that make batches; 0: none; auto: by the granted cores")
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
  add_deepspeed(app, flags);
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

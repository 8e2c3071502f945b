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
  app.add_option("--accumulate", flags.accumulate, "Micro-batches of a step on each worker")
      ->type_name("COUNT")
      ->group(group);
  app.add_option("--clip-norm", flags.clip_norm, "Clips the norm of the whole gradient")
      ->type_name("NORM")
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
                 "auto, shared-memory, gloo or mpi [auto: mpi under mpirun, shared-memory on one "
                 "node, else gloo]")
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
  require_choice("--conv", flags.convolution, {"auto", "onednn", "im2col"});
  if (flags.strategy) {
    contract::parse_strategy(*flags.strategy);
  }
  parse_lr_scaling(flags.scale_lr);
  return flags;
}

TrainerOptions resolve(TrainerOptions options, const Flags& flags, int world_size) {
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/ckpt/ckpt.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "tools/ckpt/commands.h"
#include "tools/tool.h"

namespace lockstep::ckpt {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  lockstep-ckpt inspect runs/mnist\n"
    "  lockstep-ckpt convert runs/mnist model.safetensors --dtype bf16\n"
    "  lockstep-ckpt prune runs/mnist --keep 3 --dry-run";

constexpr const char* kInspectFooter =
    "PATH is a checkpoint, a run (its newest checkpoint), a .safetensors file, or a\n"
    "file of torch.save.\n"
    "\n"
    "Examples:\n"
    "  lockstep-ckpt inspect runs/mnist";

constexpr const char* kListFooter =
    "Examples:\n"
    "  lockstep-ckpt list runs/mnist";

constexpr const char* kVerifyFooter =
    "PATH is a checkpoint, a run (all its checkpoints), a .safetensors file, or a\n"
    "file of torch.save.\n"
    "\n"
    "Examples:\n"
    "  lockstep-ckpt verify runs/mnist";

constexpr const char* kConvertFooter =
    "FROM is a checkpoint, a run (its newest checkpoint), a .safetensors file, or a\n"
    "file of torch.save.\n"
    "\n"
    "Examples:\n"
    "  lockstep-ckpt convert runs/mnist model.safetensors --dtype bf16\n"
    "  lockstep-ckpt convert runs/gpt2 pytorch_model.bin     (like zero_to_fp32.py)";

constexpr const char* kPruneFooter =
    "Examples:\n"
    "  lockstep-ckpt prune runs/mnist --keep 3 --dry-run";

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    success\n"
    "  64   invalid or conflicting options\n"
    "  70   internal error: a bug in lockstep\n"
    "  74   a file is damaged, or could not be read or written";

// CLI11 copies the footer of the program to its subcommands, so each of them needs its own.
void add_footer(CLI::App& app, const char* text) {
  app.footer(fmt::format("{}\n\n{}", text, kExitCodes));
}

// An empty value means that the option was not given.
void require_choice(const char* option,
                    const std::string& value,
                    const std::vector<std::string>& choices) {
  if (value.empty() || std::ranges::find(choices, value) != choices.end()) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("invalid {} '{}'", option, value))
      .hint(fmt::format("{} {}", option, join(choices, " or ")));
}

// The options of each subcommand are shared with its callback, which runs during parsing.
void add_looks(CLI::App& app) {
  const auto inspected = std::make_shared<InspectOptions>();
  CLI::App* inspect_app =
      app.add_subcommand("inspect", "Show step, workers, optimizer and tensors");
  inspect_app
      ->add_option("PATH", inspected->path, "Checkpoint, run (its newest checkpoint) or file")
      ->required();
  inspect_app->add_option("--entry", inspected->entry, "Dict to read from a file of torch.save")
      ->type_name("NAME");
  inspect_app->add_flag("--json", inspected->json, "Print JSON");
  add_footer(*inspect_app, kInspectFooter);
  inspect_app->callback([inspected] { inspect(*inspected); });

  const auto listed = std::make_shared<InspectOptions>();
  CLI::App* list_app =
      app.add_subcommand("list", "List the checkpoints of a run, including damaged ones");
  list_app->add_option("ROOT", listed->path, "Run, or its directory of checkpoints")->required();
  list_app->add_flag("--json", listed->json, "Print JSON");
  add_footer(*list_app, kListFooter);
  list_app->callback([listed] { list(*listed); });

  const auto verified = std::make_shared<std::filesystem::path>();
  CLI::App* verify_app =
      app.add_subcommand("verify", "Read all files; check checksums and missing elements");
  verify_app->add_option("PATH", *verified, "Checkpoint, run (all its checkpoints) or file")
      ->required();
  add_footer(*verify_app, kVerifyFooter);
  verify_app->callback([verified] { verify(*verified); });
}

// Choices are checked here and not with CLI::IsMember, whose message has no hint.
void add_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command =
      app.add_subcommand("convert", "Convert weights to the format given by the name of TO");
  command->add_option("FROM", options->from, "Checkpoint, run (its newest checkpoint) or file")
      ->required();
  command->add_option("TO", options->to, "Output: NAME.safetensors, NAME.pt or pytorch_model.bin")
      ->required();
  command
      ->add_option("--only", options->only, "Part of a checkpoint: model, optimizer or ema [model]")
      ->type_name("PART");
  command
      ->add_option("--dtype",
                   options->dtype,
                   "Type of floating-point tensors: fp16, bf16 or fp32 [unchanged]")
      ->type_name("NAME");
  command->add_option("--entry", options->entry, "Dict to read from a file of torch.save")
      ->type_name("NAME");
  add_footer(*command, kConvertFooter);
  command->callback([options] {
    require_choice("--only", options->only, {"model", "optimizer", "ema"});
    require_choice("--dtype", options->dtype, {"fp16", "bf16", "fp32"});
    convert(*options);
  });
}

// --keep has no default: deleting checkpoints must be asked for explicitly.
void add_prune(CLI::App& app) {
  const auto options = std::make_shared<PruneOptions>();
  CLI::App* command = app.add_subcommand("prune", "Delete old checkpoints, except the best one");
  command->add_option("ROOT", options->root, "Run, or its directory of checkpoints")->required();
  command->add_option("--keep", options->keep, "Number of newest checkpoints to keep")
      ->type_name("COUNT")
      ->required();
  command->add_flag(
      "--dry-run", options->dry_run, "Print what would be deleted, and delete nothing");
  add_footer(*command, kPruneFooter);
  command->callback([options] {
    if (options->keep < 1) {
      throw Error(ExitCode::Usage, fmt::format("--keep {} is out of range", options->keep))
          .hint("--keep 1 or more");
    }
    prune(*options);
  });
}

// Checked before CLI11, whose message neither lists the subcommands nor suggests one. A word with a
// leading dash is left to CLI11 (--help, --version).
void require_command(const std::string& word) {
  const std::vector<std::string> commands = {"inspect", "list", "verify", "convert", "prune"};
  if (word.starts_with('-') || std::ranges::find(commands, word) != commands.end()) {
    return;
  }
  throw Error(ExitCode::Usage,
              word.empty() ? std::string("no subcommand given")
                           : fmt::format("unknown subcommand '{}'", word))
      .fact("available", join(commands, ", "))
      .hint(fmt::format("lockstep-ckpt {}", find_closest(word, commands).value_or("--help")));
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Inspect, verify, convert and prune checkpoints", "lockstep-ckpt");
  add_footer(app, kExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_looks(app);
  add_convert(app);
  add_prune(app);
  return tool::run(
      app, argc, argv, [word = std::string(argc > 1 ? argv[1] : "")] { require_command(word); });
}

}  // namespace lockstep::ckpt

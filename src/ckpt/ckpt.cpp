// SPDX-License-Identifier: Apache-2.0
#include "ckpt/ckpt.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "ckpt/commands.h"
#include "lockstep/error.h"
#include "tool/tool.h"

namespace lockstep::ckpt {
namespace {

constexpr const char* kFooter =
    "PATH is a checkpoint, a run (its newest checkpoint), a .safetensors, or a file of "
    "torch.save.\n"
    "\n"
    "Examples:\n"
    "  lockstep-ckpt inspect runs/mnist\n"
    "  lockstep-ckpt convert runs/mnist model.safetensors --dtype bf16\n"
    "  lockstep-ckpt convert runs/gpt2 pytorch_model.bin     (as DeepSpeed's zero_to_fp32.py)\n"
    "\n"
    "Exit codes:\n"
    "  0 done   64 usage   70 a bug of lockstep   74 a file is damaged, or cannot be read or "
    "written";

void require_choice(const char* option,
                    const std::string& value,
                    const std::vector<std::string>& choices) {
  if (value.empty() || std::ranges::find(choices, value) != choices.end()) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("cannot use {} {}", option, value))
      .hint(fmt::format("{} {}", option, join(choices, " or ")));
}

void add_looks(CLI::App& app) {
  const auto inspected = std::make_shared<InspectOptions>();
  CLI::App* inspect_app =
      app.add_subcommand("inspect", "Show step, workers, optimizer and tensors");
  inspect_app->add_option("PATH", inspected->path, "What to look at")->required();
  inspect_app->add_option("--entry", inspected->entry, "Which dict of a file of torch.save")
      ->type_name("NAME");
  inspect_app->add_flag("--json", inspected->json, "For machines");
  inspect_app->callback([inspected] { inspect(*inspected); });

  const auto listed = std::make_shared<InspectOptions>();
  CLI::App* list_app = app.add_subcommand("list", "Show the complete checkpoints of a run");
  list_app->add_option("ROOT", listed->path, "A run, or its directory of checkpoints")->required();
  list_app->add_flag("--json", listed->json, "For machines");
  list_app->callback([listed] { list(*listed); });

  const auto verified = std::make_shared<std::filesystem::path>();
  CLI::App* verify_app =
      app.add_subcommand("verify", "Read every byte: checksums, and that no element is missing");
  verify_app->add_option("PATH", *verified, "What to verify")->required();
  verify_app->callback([verified] { verify(*verified); });
}

void add_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand("convert", "Write weights for others, by the name of TO");
  command->add_option("FROM", options->from, "A checkpoint, a run, or a file")->required();
  command->add_option("TO", options->to, "NAME.safetensors, NAME.pt, pytorch_model.bin")
      ->required();
  command->add_option("--only", options->only, "model, optimizer or ema [model]")
      ->type_name("PART");
  command->add_option("--dtype", options->dtype, "fp16, bf16 or fp32 [as it is]")
      ->type_name("NAME");
  command->add_option("--entry", options->entry, "Which dict of a file of torch.save")
      ->type_name("NAME");
  command->callback([options] {
    require_choice("--only", options->only, {"model", "optimizer", "ema"});
    require_choice("--dtype", options->dtype, {"fp16", "bf16", "fp32"});
    convert(*options);
  });
}

void add_prune(CLI::App& app) {
  const auto options = std::make_shared<PruneOptions>();
  CLI::App* command =
      app.add_subcommand("prune", "Delete old checkpoints; the best and a sound one always stay");
  command->add_option("ROOT", options->root, "A run, or its directory of checkpoints")->required();
  command->add_option("--keep", options->keep, "How many of the newest stay")
      ->type_name("COUNT")
      ->required();
  command->add_flag("--dry-run", options->dry_run, "Only say what would be deleted");
  command->callback([options] {
    if (options->keep < 1) {
      throw Error(ExitCode::Usage, fmt::format("cannot use --keep {}", options->keep))
          .hint("--keep 1 or more");
    }
    prune(*options);
  });
}

// CLI11 only says that a subcommand is missing.
void require_command(const std::string& word) {
  const std::vector<std::string> commands = {"inspect", "list", "verify", "convert", "prune"};
  if (word.starts_with('-') || std::ranges::find(commands, word) != commands.end()) {
    return;
  }
  throw Error(ExitCode::Usage,
              word.empty()
                  ? std::string("cannot tell what to do: a subcommand is missing")
                  : fmt::format("cannot understand '{}': there is no such subcommand", word))
      .fact("there are", join(commands, ", "))
      .hint(fmt::format("lockstep-ckpt {}", find_closest(word, commands).value_or("--help")));
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Looks at checkpoints, verifies and converts them", "lockstep-ckpt");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_looks(app);
  add_convert(app);
  add_prune(app);
  return tool::run(
      app, argc, argv, [word = std::string(argc > 1 ? argv[1] : "")] { require_command(word); });
}

}  // namespace lockstep::ckpt

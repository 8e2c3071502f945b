// SPDX-License-Identifier: Apache-2.0
//
// Parses the options of option_table.cpp. Checks in three places: type and choices here, numbers
// and strategies in strategy_flags.cpp, combinations with the options of the program in
// resolve_flags.cpp.
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
#include "training/train/options/deepspeed_flags.h"
#include "training/train/options/flag_checks.h"
#include "training/train/options/option_table.h"
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

CLI::Option* add_field(CLI::App& app, Flags& flags, const Option& option) {
  const std::string names(option.syntax.names);
  const std::string text = help_text(option);
  return std::visit(
      [&](auto field) -> CLI::Option* {
        using Value = std::remove_reference_t<decltype(flags.*field)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return app.add_flag(names, flags.*field, text);
        } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
          const bool value = !names.starts_with("--no-");
          return app.add_flag_callback(
              names, [&flags, field, value] { flags.*field = value; }, text);
        } else {
          return app.add_option(names, flags.*field, text)
              ->type_name(std::string(option.syntax.value));
        }
      },
      option.syntax.field);
}

// "Network: cnn, classic or mlp [cnn]". An empty default means "not set" and is not shown.
std::string help_of(const ProgramOption& option) {
  std::string text = option.help;
  for (size_t i = 0; i < option.choices.size(); ++i) {
    const bool is_last = i + 1 == option.choices.size();
    text += (i == 0 ? ": " : is_last ? " or " : ", ") + option.choices[i];
  }
  return option.value.empty() ? text : fmt::format("{} [{}]", text, option.value);
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
      app.add_option(option.name, value, help_of(option))
          ->type_name("VALUE")
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

// Integers are recognized by the type name in --help.
void add_options(CLI::App& app, Flags& flags) {
  for (const Option& option : option_table()) {
    CLI::Option* added = add_field(app, flags, option);
    added->group(std::string(option.syntax.group));
    if (option.syntax.value == "COUNT" || option.syntax.value == "STEPS") {
      added->transform(clamp_to_int64);
    }
    if (option.name() == "--seed") {
      added->check(find_seed_fault);
    }
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
  add_options(app, flags);
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
  require_choice("--jpeg", flags.jpeg, {"auto", "cpu", "gpu"});
  require_choice("--conv", flags.convolution, {"auto", "onednn", "im2col"});
  if (flags.strategy) {
    contract::parse_strategy(*flags.strategy);
  }
  settle_deepspeed_flags(flags);
  require_numbers(flags);
  require_support(flags, Scope::OwnSetup);
  settle_collective(flags);
  require_support(flags, Scope::Shared);
  parse_lr_scaling(flags.scale_lr);
  return flags;
}

}  // namespace lockstep::train

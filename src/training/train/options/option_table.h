// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "training/strategy/properties.h"
#include "training/train/options/flags.h"

// The options of every training program. The command line, --help and the errors for options that a
// strategy does not support are derived from one table.
namespace lockstep::train {

// Which strategies support an option.
enum class Scope {
  Every,     // all
  Shared,    // some. Also accepted without -s: the same command line works for any world size
  Own,       // one, which -s must select
  OwnSetup,  // like Own; needed, and checked, before the strategy is created
  Selects,   // one, which the option selects
};

// Whether --verify-strategies accepts an option with scope Own or OwnSetup: never, if it runs all
// strategies (no -s), or always.
enum class Verify { Never, WithoutStrategy, Always };

struct Support {
  Scope scope = Scope::Every;
  strategy::Property property = nullptr;  // of the strategies that support it; null: all
  Verify verify = Verify::Never;
  std::string_view neutral = {};  // a value that all strategies accept, in addition to the default
  std::string_view reason = {};   // Shared: why other strategies with several workers do not
  // What to use instead. {value} is the value of the option, {strategies} are those that support
  // it, {transport} is the nearest value of --transport. Empty: omit the option.
  std::string_view instead = {};
  bool of_trainer = false;             // an error in programs with a custom training loop
  std::string_view unverifiable = {};  // why --verify-strategies rejects it; empty: it does not
};

// Where to store the value. The type determines the syntax: bool is a flag without a value;
// std::optional<bool> as well, and a name that starts with "--no-" stores false.
using Field = std::variant<bool Flags::*,
                           std::optional<bool> Flags::*,
                           int Flags::*,
                           std::optional<int> Flags::*,
                           std::optional<int64_t> Flags::*,
                           std::optional<uint64_t> Flags::*,
                           std::optional<double> Flags::*,
                           std::string Flags::*,
                           std::optional<std::string> Flags::*>;

struct Syntax {
  std::string_view names;  // "--clip,--clip-norm": the main name first
  std::string_view value;  // type name in --help: "NORM"; empty: no value
  std::string_view group;  // heading in --help
  Field field;
};

struct Option {
  Syntax syntax;
  std::string_view text;  // in --help; {names} are replaced by help_text()
  Support support = {};

  // The name in messages: "--clip".
  std::string name() const { return std::string(syntax.names.substr(0, syntax.names.find(','))); }

  // As on the command line: "--clip 1"; only the name of a flag, whose value is empty.
  std::string typed(const std::string& value) const {
    return value.empty() ? name() : name() + " " + value;
  }
};

// All options, in the order of --help.
std::span<const Option> option_table();

// Returns the value of an option that was given; empty for a flag. Returns nothing for the default,
// which is the same as no option, and for the neutral value.
std::optional<std::string> find_value(const Option& option, const Flags& flags);

// Returns the text for --help. Replaces {strategies} by the strategies that support the option,
// {all} by all strategies, {powersgd} by those with PowerSGD, and {default} and {default_of_one} by
// the defaults for several workers and for one. Texts follow strategy/properties, so that a new
// strategy appears in all of them.
std::string help_text(const Option& option);

}  // namespace lockstep::train

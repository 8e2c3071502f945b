// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Options of other launchers (torchrun, horovodrun, deepspeed, itwinai) that a subcommand accepts
// or explains in addition to its own.
namespace lockstep::cli {

// Another name of an option that a subcommand declares: "-np" for "--num-proc" of "run".
std::optional<std::string_view> find_alias(std::string_view subcommand, std::string_view name);

// An option of another launcher that lockstep does not support.
struct Foreign {
  std::string_view name;
  std::string_view owner;    // "horovodrun"
  std::string_view why;      // reason, for example "the rendezvous uses Gloo"
  std::string_view instead;  // alternative to type
};

const Foreign* find_foreign(std::string_view name);

// An option of horovodrun that sets a variable for the workers.
struct ForVariable {
  std::string_view name;
  std::string_view variable;
  std::string_view value;  // of a flag; empty: the option has a value
  int64_t factor = 1;      // from the unit of the option to the unit of the variable
};

const ForVariable* find_for_variable(std::string_view name);

}  // namespace lockstep::cli

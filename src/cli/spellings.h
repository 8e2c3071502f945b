// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Options of the tools that a subcommand stands in for, beyond those that it declares.
namespace lockstep::cli {

// Another name of an option that a subcommand declares: "-np" for "--num-proc" of "run".
std::optional<std::string_view> find_alias(std::string_view subcommand, std::string_view name);

// An option that is known and cannot be honoured.
struct Foreign {
  std::string_view name;
  std::string_view owner;    // "horovodrun"
  std::string_view why;      // "workers meet over Gloo"
  std::string_view instead;  // what to type
};

const Foreign* find_foreign(std::string_view name);

// An option of horovodrun that is a variable for its workers.
struct ForVariable {
  std::string_view name;
  std::string_view variable;
  std::string_view value;  // of an option that takes none; empty: it takes the variable's value
  int64_t factor = 1;      // of a number, from the option's unit to the variable's
};

const ForVariable* find_for_variable(std::string_view name);

}  // namespace lockstep::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

// The process environment: the only getenv in the house.
namespace lockstep::os {

// A set of variables as a value, so that what reads it can be tested without touching the process.
using Environment = std::map<std::string, std::string, std::less<>>;

// A copy of this process's environment.
Environment environment();

std::optional<std::string> find_variable(const Environment& environment, std::string_view name);

// Changes this process's own environment; only before the first thread starts.
void set_variable(const std::string& name, const std::string& value);
void unset_variable(const std::string& name);

}  // namespace lockstep::os

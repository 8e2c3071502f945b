// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

// The process environment. No other code calls getenv.
namespace lockstep::os {

// A set of variables as a value, so that its readers can be tested without changing the process.
using Environment = std::map<std::string, std::string, std::less<>>;

// A copy of the environment of this process.
Environment environment();

std::optional<std::string> find_variable(const Environment& environment, std::string_view name);

// Changes the environment of this process; only before the first thread starts.
void set_variable(const std::string& name, const std::string& value);
void unset_variable(const std::string& name);

}  // namespace lockstep::os

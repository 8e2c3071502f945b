// SPDX-License-Identifier: Apache-2.0
#include "common/os/environment.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace lockstep::os {

Environment environment() {
  Environment variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

std::optional<std::string> find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

// setenv() can move the whole table, while getenv() and environment() of another thread read it
// without a lock. That is why the header allows changes only before the first thread.
void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

void unset_variable(const std::string& name) {
  ::unsetenv(name.c_str());
}

}  // namespace lockstep::os

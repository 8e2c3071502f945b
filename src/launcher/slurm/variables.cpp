// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/variables.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "common/contract/secret.h"

namespace lockstep::slurm {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return text;
}

}  // namespace

bool is_variable_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '_';
         });
}

void require_names(const Pairs& variables, std::string_view source) {
  for (const auto& [name, value] : variables) {
    if (!is_variable_name(name)) {
      throw Error(ExitCode::Usage, fmt::format("'{}' is not a valid variable name", name))
          .fact("position", source)
          .hint("use letters, digits and _; the first character must not be a digit");
    }
  }
}

Pairs secrets_among(Pairs variables) {
  std::erase_if(variables, [](const auto& variable) {
    return !contract::is_secret(variable.first, variable.second);
  });
  return variables;
}

// Slurm stores the script, and `lockstep submit` saves it on request.
void take_variables(const Pairs& variables, Job& job) {
  for (const auto& [name, value] : variables) {
    if (contract::is_secret(name, value)) {
      job.secrets.push_back(name);
    } else {
      job.variables.emplace_back(name, value);
    }
  }
}

void add_proxy(Pairs& variables, const std::string& name, const std::string& value) {
  variables.emplace_back(name, value);
  variables.emplace_back(upper(name), value);
}

}  // namespace lockstep::slurm

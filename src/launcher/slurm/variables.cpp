// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/variables.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>

namespace lockstep::slurm {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return text;
}

// Whether a name marks a secret. Compares whole words: TOKENIZERS_PARALLELISM is not a secret.
bool is_secret_name(std::string_view name) {
  constexpr auto kWords = std::to_array<std::string_view>({"TOKEN",
                                                           "SECRET",
                                                           "PASSWORD",
                                                           "PASSWD",
                                                           "API_KEY",
                                                           "APIKEY",
                                                           "ACCESS_KEY",
                                                           "PRIVATE_KEY",
                                                           "CREDENTIAL",
                                                           "CREDENTIALS"});
  const std::string letters = "_" + upper(std::string(name)) + "_";
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return contains(letters, "_" + std::string(word) + "_");
  });
}

// "http://user:password@proxy": user and password are between "://" and "@", separated by a colon.
bool has_password(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t at = url.find('@');
  return scheme != std::string_view::npos && at != std::string_view::npos &&
         contains(url.substr(scheme + 3, at - scheme - 3), ":");
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

bool is_secret(std::string_view name, std::string_view value) {
  return (is_secret_name(name) && !value.starts_with('$')) || has_password(value);
}

Pairs secrets_among(Pairs variables) {
  std::erase_if(variables,
                [](const auto& variable) { return !is_secret(variable.first, variable.second); });
  return variables;
}

// Slurm stores the script, and `lockstep submit` saves it on request.
void take_variables(const Pairs& variables, Job& job) {
  for (const auto& [name, value] : variables) {
    if (is_secret(name, value)) {
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

// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/shell_text.h"

#include <cctype>

namespace lockstep::slurm {
namespace {

// Whether a dollar before `next` starts a variable.
bool begins_name(std::string_view next) {
  const char first = next.empty() ? ' ' : next.front();
  return std::isalpha(static_cast<unsigned char>(first)) != 0 || first == '_' || first == '{';
}

}  // namespace

// Double quotes, because values of a job file may refer to variables of the job. Command
// substitution is escaped: `...` always, and $( because begins_name() accepts only names and
// braces.
std::string in_quotes(std::string_view value) {
  std::string text = "\"";
  if (value.starts_with("~/")) {
    text += "$HOME";
    value.remove_prefix(1);
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const char letter = value[i];
    const bool is_special = letter == '"' || letter == '\\' || letter == '`' ||
                            (letter == '$' && !begins_name(value.substr(i + 1)));
    if (is_special) {
      text += '\\';
    }
    text += letter;
  }
  return text + '"';
}

std::string continued(std::span<const std::string> lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += (text.empty() ? "" : " \\\n  ") + line;
  }
  return text + "\n";
}

}  // namespace lockstep::slurm

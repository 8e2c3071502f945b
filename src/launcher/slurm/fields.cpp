// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/fields.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/text.h"

namespace lockstep::slurm {
namespace {

bool is_name(std::string_view text) {
  const auto is_part = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == ':' || letter == '/';
  };
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z' &&
         std::all_of(text.begin(), text.end(), is_part);
}

std::string plain(std::string_view text) {
  constexpr std::array<std::string_view, 5> kNothing = {"(null)", "N/A", "None", "Unknown", "NONE"};
  const std::string_view value = trim(text);
  return std::string(std::find(kNothing.begin(), kNothing.end(), value) == kNothing.end() ? value
                                                                                          : "");
}

}  // namespace

// A word with '=' starts a new field only if the text before it looks like a field name. Values
// such as "Command=/bin/x --a=1" or "Comment=see b=c" therefore stay together, because their words
// begin with a lower-case letter or a dash. A value that contains " Xyz=" is divided wrongly; job
// names and comments can cause that, the fields that are used after them keep their first value.
Fields parse_fields(std::string_view line) {
  Fields fields;
  std::string name;
  std::string value;
  const auto keep = [&] {
    if (!name.empty()) {
      fields.emplace(name, plain(value));
    }
  };
  for (const std::string& word : split(line, ' ')) {
    const size_t sign = word.find('=');
    if (sign != std::string::npos && is_name(std::string_view(word).substr(0, sign))) {
      keep();
      name = word.substr(0, sign);
      value = word.substr(sign + 1);
    } else {
      value += " " + word;
    }
  }
  keep();
  return fields;
}

Fields parse_settings(std::string_view text) {
  Fields settings;
  for (const std::string& line : split(text, '\n')) {
    const size_t sign = line.find(" = ");
    const size_t end = line.find(' ');
    if (sign != std::string::npos && end != 0) {
      settings.emplace(line.substr(0, end), plain(line.substr(sign + 3)));
    }
  }
  return settings;
}

std::string value_of(const Fields& fields, std::string_view name) {
  const auto at = fields.find(name);
  return at == fields.end() ? "" : at->second;
}

// Slurm writes ranges of a pending job as "2-4"; the minimum counts.
int64_t count_of(const Fields& fields, std::string_view name, int64_t missing) {
  constexpr int64_t kThousand = 1024;  // K as in Slurm
  const std::string value = value_of(fields, name);
  const size_t digits = std::min(value.find_first_not_of("0123456789"), value.size());
  const auto number = find_integer(std::string_view(value).substr(0, digits));
  if (!number) {
    return missing;
  }
  return value.substr(digits) == "K" ? *number * kThousand : *number;
}

}  // namespace lockstep::slurm

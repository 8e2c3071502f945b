// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/interpolate.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::config {
namespace {

// The form decides between a typing error and a variable of the shell: keys of job files are lower
// case, environment variables upper case by convention.
bool is_key(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
                  letter == '_';
         });
}

Error unknown(const TreeNode& node, const std::string& name, std::span<const std::string> known) {
  Error error(ExitCode::Usage, fmt::format("cannot replace ${{{}}}: unknown key '{}'", name, name));
  error.fact("position", describe(node.position));
  if (const auto closest = find_closest(name, known)) {
    error.hint(fmt::format("${{{}}}", *closest));
  }
  error.hint(fmt::format("$${{{}}} if the shell is to replace it", name));
  return error;
}

}  // namespace

// One pass from left to right. Replaced values are not searched again, so a value cannot refer to
// itself. An unclosed "${" is left to the shell, which reports it.
std::string interpolate(const TreeNode& node,
                        const Lookup& lookup,
                        std::span<const std::string> known) {
  const std::string& text = node.text;
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t start = text.find("${", at);
    const size_t end = start == std::string::npos ? start : text.find('}', start);
    if (end == std::string::npos) {
      break;
    }
    const std::string name = text.substr(start + 2, end - start - 2);
    if (start > at && text[start - 1] == '$') {  // $${name}
      result += text.substr(at, start - 1 - at) + text.substr(start, end + 1 - start);
    } else if (const auto value = lookup(name)) {
      result += text.substr(at, start - at) + *value;
    } else if (is_key(name)) {
      throw unknown(node, name, known);
    } else {
      result += text.substr(at, end + 1 - at);
    }
    at = end + 1;
  }
  return result + text.substr(std::min(at, text.size()));
}

}  // namespace lockstep::config

// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/markup.h"

// Names of runs, commands and error texts come from users and programs. They reach HTML pages only
// through this function. Control characters are dropped because XML 1.0 has no way to escape them.
namespace lockstep::report {

std::string escape_markup(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(letter) >= ' ' || letter == '\n' || letter == '\t') {
          escaped += letter;
        }
    }
  }
  return escaped;
}

}  // namespace lockstep::report

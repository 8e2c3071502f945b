// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::report {

// Escapes a text for HTML and XML, in elements and in attributes, and removes control characters
// that XML does not allow.
std::string escape_markup(std::string_view text);

}  // namespace lockstep::report

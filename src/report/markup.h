// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::report {

// A text as it stands between tags or quotes of HTML and XML, without what XML cannot hold.
std::string escape_markup(std::string_view text);

}  // namespace lockstep::report

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/document/node.h"

namespace lockstep::document {

// Parses `text`; `file` is its name in messages. The position of a value in a map is that of its
// key. Throws an Error (64) with line and column for invalid JSON, including comments and trailing
// commas, and for duplicate keys. `example` is the hint for an empty file.
TreeNode parse_json(std::string_view text,
                    const std::string& file,
                    std::string_view example = "{}");

}  // namespace lockstep::document

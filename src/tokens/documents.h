// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace lockstep::tokens {

// The texts of a file, one after the other: of a .jsonl the field "text" of each line, else the
// whole file. Throws an Error that names the line that has none.
void read_documents(const std::filesystem::path& file,
                    const std::function<void(std::string_view text)>& take);

}  // namespace lockstep::tokens

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace lockstep::tokens {

// Passes the documents of a file to `take`: for a .jsonl file the field "text" of each line,
// otherwise the entire file. Throws an Error with the number of a line without "text".
void read_documents(const std::filesystem::path& file,
                    const std::function<void(std::string_view text)>& take);

}  // namespace lockstep::tokens

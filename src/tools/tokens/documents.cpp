// SPDX-License-Identifier: Apache-2.0
#include "tools/tokens/documents.h"

#include <fmt/format.h>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::tokens {
namespace {

// Line by line: such files have many gigabytes. The file is opened twice on failure, because
// streams do not keep the reason.
void read_lines(const std::filesystem::path& file,
                const std::function<void(std::string_view)>& take) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    os::read_file(file);  // throws an Error with the reason
  }
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    if (!value.is_object() || !value.contains("text") || !value["text"].is_string()) {
      throw Error(ExitCode::Io,
                  fmt::format("cannot read {}: a line has no field \"text\"", file.string()))
          .fact("line", std::to_string(number))
          .fact("expected", R"({"text": "..."})");
    }
    // The text is valid only during the call: the value belongs to this line.
    take(value["text"].get_ref<const std::string&>());
  }
  if (in.bad()) {
    throw Error(ExitCode::Io, fmt::format("cannot read {} completely", file.string()))
        .fact("line", std::to_string(number));
  }
}

}  // namespace

void read_documents(const std::filesystem::path& file,
                    const std::function<void(std::string_view)>& take) {
  if (file.extension() == ".jsonl") {
    read_lines(file, take);
  } else {
    take(os::read_file(file));
  }
}

}  // namespace lockstep::tokens

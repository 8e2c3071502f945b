// SPDX-License-Identifier: Apache-2.0
#include "common/contract/unprinted_error.h"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "common/os/files.h"

namespace lockstep::contract {

bool write_unprinted_error(const WorkerSpec& spec, std::string_view text) noexcept {
  if (spec.error_file.empty()) {
    return false;
  }
  try {
    constexpr int kFormat = 1;
    const nlohmann::ordered_json json = {{"format", kFormat}, {"error", text}};
    // The text may contain bytes of a file name or of another library that are not UTF-8.
    os::replace_file(spec.error_file,
                     json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return true;
  } catch (const std::exception&) {  // a full disk, or a directory that is not there
    return false;
  }
}

std::optional<std::string> find_unprinted_error(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (file.empty() || !stream) {
    return std::nullopt;
  }
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_string()) {
    return std::nullopt;
  }
  return json["error"].get<std::string>();
}

}  // namespace lockstep::contract

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// The programs in Python that lockstep is compared with: share/lockstep/peers beside the directory
// of this program.
namespace lockstep::bench {

// The path of a peer. Throws an Error where it, `python` or its torch is missing, so that nothing
// is measured in vain.
std::filesystem::path find_peer(const std::string& name, const std::string& python);

// Runs a program to its end; throws an Error with its last words where it fails.
std::string run_to_end(const std::vector<std::string>& command);

// Runs a peer; what the last line that it prints says.
nlohmann::json run_peer(const std::string& python,
                        const std::filesystem::path& script,
                        const std::vector<std::string>& arguments);

// A figure of a peer's; nothing where it does not give it.
std::optional<double> find_figure(const nlohmann::json& figures, const std::string& key);

}  // namespace lockstep::bench

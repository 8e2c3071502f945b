// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// The peers: Python programs for comparison, in ../share/lockstep/peers relative to the directory
// of this program.
namespace lockstep::bench {

// `requested`, or the first of python3 and /usr/bin/python3 that has torch if it is empty; python3
// if none has.
std::string find_python(const std::string& requested);

// The path of a peer. Throws an Error if it, the interpreter or its torch is missing. Call it
// before the measurement, which can take minutes.
std::filesystem::path find_peer(const std::string& name, const std::string& requested_python);

// Runs a program to its end; throws an Error with its last output line if it fails.
std::string run_to_end(const std::vector<std::string>& command);

// Runs a peer and returns the JSON of its last output line.
nlohmann::json run_peer(const std::string& requested_python,
                        const std::filesystem::path& script,
                        const std::vector<std::string>& arguments);

// A value from the results of a peer; nothing if it is missing.
std::optional<double> find_figure(const nlohmann::json& figures, const std::string& key);

}  // namespace lockstep::bench

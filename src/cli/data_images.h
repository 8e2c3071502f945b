// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

struct Call;

// What subcommands of `lockstep data` have in common.
struct DataWishes {
  std::string name;
  std::optional<std::string> directory;
};

// Declares --data-dir.
void add_data_directory(CLI::App& app, DataWishes& wishes);

// Where data sets lie: the option, else the variable, else data/.
std::string data_directory(const DataWishes& wishes);

// `lockstep data make`, `pack` and `check`, which are about images.
void add_image_commands(CLI::App& data, const std::shared_ptr<DataWishes>& wishes, Call& call);

}  // namespace lockstep::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

struct Call;

// Options that the subcommands of `lockstep data` share.
struct DataOptions {
  std::string name;
  std::optional<std::string> directory;
};

// Declares --data-dir.
void add_data_directory(CLI::App& app, DataOptions& options);

// The data directory: --data-dir, otherwise $LOCKSTEP_DATA_DIR, otherwise data/.
std::string data_directory(const DataOptions& options);

// Declares `lockstep data make`, `pack` and `check`.
void add_image_commands(CLI::App& data, const std::shared_ptr<DataOptions>& options, Call& call);

}  // namespace lockstep::cli

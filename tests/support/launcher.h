// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/contract/run_directory.h"
#include "common/os/command.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "common/os/process.h"
#include "support/comes_true.h"
#include "support/golden.h"

namespace lockstep::testing {

struct Result {
  os::ExitStatus status;
  std::string output;
  std::string errors;
};

// Runs the real launcher in a new, empty directory.
class Launcher {
 public:
  // Runs `lockstep ARGUMENTS` and waits for its end.
  Result run(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return wait();
  }

  // Starts `lockstep ARGUMENTS` without waiting.
  void start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), called);
    const os::Fd output = os::open_for_append(path("stdout"));
    const os::Fd errors = os::open_for_append(path("stderr"));
    process_.emplace(os::start({.executable = executable,
                                .arguments = std::move(arguments),
                                .environment = environment,
                                .stdout_fd = output.number(),
                                .stderr_fd = errors.number(),
                                .inherited = {},
                                .directory = directory_.path().string(),
                                .has_own_group = true}));
  }

  Result wait() {
    Result result;
    result.status = process_->wait();
    result.output = read_text(path("stdout"));
    result.errors = read_text(path("stderr"));
    std::filesystem::remove(path("stdout"));
    std::filesystem::remove(path("stderr"));
    return result;
  }

  // Waits until the file exists and returns its text.
  std::string wait_for_file(const std::string& name) const {
    comes_true([&] { return std::filesystem::exists(path(name)); });
    return read_text(path(name));
  }

  // Waits until the launcher has printed `text`. Returns false after a timeout.
  bool prints(const std::string& text) const {
    return comes_true([&] { return read_text(path("stdout")).find(text) != std::string::npos; });
  }

  // Waits until the launcher has blocked the signal to read it from a descriptor. Before that, the
  // signal would kill it. Returns false after a timeout.
  bool listens(int signal) const {
    const std::string status = fmt::format("/proc/{}/status", process_->pid());
    return comes_true([&] {
      const std::string text = read_text(status);
      const size_t mask = text.find("SigBlk:");
      return mask != std::string::npos &&
             (std::stoull(text.substr(mask + 8), nullptr, 16) >> (signal - 1) & 1) != 0;
    });
  }

  // Writes an executable script.
  void write_script(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
  }

  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  contract::RunDirectory run_directory() const { return contract::RunDirectory(path("run")); }
  os::Child& process() { return *process_; }

  os::Environment environment = clean_environment();
  std::string executable = LOCKSTEP_BIN_DIR "/lockstep";
  std::string called = "lockstep";  // argv[0]

 private:
  // Removes variables that an outer launcher may have set.
  static os::Environment clean_environment() {
    os::Environment variables = os::environment();
    for (const char* name : {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "LOCKSTEP_DATA_DIR"}) {
      variables.erase(name);
    }
    std::erase_if(variables, [](const auto& variable) {
      return variable.first.starts_with("PET_") || variable.first.starts_with("SLURM_");
    });
    variables.insert_or_assign("CUDA_VISIBLE_DEVICES", "");  // hides GPUs: workers can exceed them
    return variables;
  }

  os::TemporaryDirectory directory_{"launcher-test"};
  std::optional<os::Child> process_;
};

inline bool is_alive(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  return !line.empty() && line.find(") Z") == std::string::npos;
}

// Waits for the end of a process. Returns whether it ended.
inline bool ends_soon(int pid) {
  return comes_true([&] { return !is_alive(pid); });
}

// Replaces all occurrences of `from` by `to`, to remove differences between runs from a text.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace lockstep::testing

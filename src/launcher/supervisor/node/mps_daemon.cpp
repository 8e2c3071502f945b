// SPDX-License-Identifier: Apache-2.0
//
//   agent --> nvidia-cuda-mps-control -f --> nvidia-cuda-mps-server (started by the first client)
//     |              ^  control socket              ^
//     |              +-- commands: "quit"           +-- CUDA in the workers
//     +--> workers with CUDA_MPS_PIPE_DIRECTORY
//
// -f keeps the daemon in the foreground. With -d it would detach itself, and only a command through
// its socket could end it; a killed agent would leave it behind. The server is a child of the
// daemon. If the daemon is killed, the server becomes a child of the agent or of the guard (both
// are subreapers), which kill it.
#include "launcher/supervisor/node/mps_daemon.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/text.h"
#include "common/cluster/compute_mode.h"
#include "common/cluster/gpus.h"
#include "common/cluster/nvml.h"
#include "common/os/command.h"
#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kProgram = "nvidia-cuda-mps-control";
constexpr const char* kPipes = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLogs = "CUDA_MPS_LOG_DIRECTORY";
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kUsualPipes = "/tmp/nvidia-mps";
// The address of a Unix socket has at most 107 characters, and the daemon appends up to 20.
constexpr size_t kLongestParent = 60;
constexpr milliseconds kStartTime(10000);
constexpr milliseconds kAnswerTime(3000);
constexpr milliseconds kQuitTime(3000);
constexpr milliseconds kPollTime(20);
constexpr size_t kLogLines = 5;

// Waits until `is_true` or until `limit` has passed.
template <typename Condition>
bool wait_until(milliseconds limit, const Condition& is_true) {
  const auto until = Clock::now() + limit;
  while (!is_true()) {
    if (Clock::now() >= until) {
      return false;
    }
    std::this_thread::sleep_for(kPollTime);
  }
  return true;
}

fs::path parent_directory() {
  std::error_code ignored;  // without a valid TMPDIR: /tmp
  const fs::path usual = fs::temp_directory_path(ignored);
  return usual.empty() || usual.string().size() > kLongestParent ? fs::path("/tmp") : usual;
}

// Numbers in CUDA_VISIBLE_DEVICES of the daemon would be applied twice: it renumbers the GPUs, and
// the workers select from the renumbered ones. UUIDs mean the same for both.
void keep_only_uuids(os::Environment& environment) {
  const auto visible = os::find_variable(environment, kVisible);
  const auto names = split(visible.value_or(""), ',');
  const bool has_uuids = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("GPU-") || name.starts_with("MIG-");
  });
  if (!has_uuids) {
    environment.erase(kVisible);
  }
}

// MPS would start, but its server could not use such a GPU, and every worker would fail.
void require_open_gpus(const os::Environment& environment) {
  std::vector<int> gpus;
  for (const cluster::GpuDevice& device : cluster::list_gpu_devices(environment).devices) {
    gpus.push_back(device.gpu);
  }
  const auto closed = cluster::list_closed_gpus(cluster::Nvml::kLibrary, gpus);
  if (!gpus.empty() && !closed.empty()) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot start MPS: {}", closed.front()))
        .fact("requested", "--share-gpus mps", "command line")
        .fact("found", join(closed, "; "), "NVML")
        .hint("use other GPUs: CUDA_VISIBLE_DEVICES=UUID,... (nvidia-smi -L lists them)")
        .hint("nvidia-smi shows the process; root ends the mode with nvidia-smi -c DEFAULT");
  }
}

std::vector<std::string> last_lines(const fs::path& file) {
  std::vector<std::string> lines;
  try {
    lines = split(os::read_file(file), '\n');
  } catch (const Error&) {
    return {};  // the daemon has not written this log
  }
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  const size_t first = lines.size() > kLogLines ? lines.size() - kLogLines : 0;
  return {lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()};
}

}  // namespace

MpsDaemon::MpsDaemon(const os::Environment& environment) : own_environment_(environment) {
  const auto program = os::find_program(kProgram, environment);
  if (!program) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot start MPS: {} not found on this node", kProgram))
        .fact("requested", "--share-gpus mps", "command line")
        .fact("searched", os::find_variable(environment, "PATH").value_or(""), "PATH")
        .hint(
            "install the package of the NVIDIA driver that contains it, for example "
            "nvidia-compute-utils or nvidia-cuda-mps")
        .hint("--share-gpus without a value: the workers take turns on the GPU");
  }
  program_ = *program;
  const fs::path usual = os::find_variable(environment, kPipes).value_or(kUsualPipes);
  std::error_code ignored;
  if (fs::exists(usual / "control", ignored) && answers(environment)) {
    found_ = usual;
    variables_ = {{kPipes, usual.string()}};
    return;
  }
  require_open_gpus(environment);
  start();
}

MpsDaemon::~MpsDaemon() {
  if (process_) {
    process_->signal_group(SIGKILL);
  }
}

// Two directories: the daemon creates a file "log" among its pipes. Its output goes to a file: in
// the foreground it prints messages that it otherwise writes to control.log.
void MpsDaemon::start() {
  directory_ = std::make_unique<os::TemporaryDirectory>("lockstep-mps", parent_directory());
  const fs::path pipes = directory_->path() / "pipe";
  const fs::path logs = directory_->path() / "log";
  for (const fs::path& path : {pipes, logs}) {
    os::make_directories(path);
    fs::permissions(path, fs::perms::owner_all);
  }
  variables_ = {{kPipes, pipes.string()}, {kLogs, logs.string()}};
  keep_only_uuids(own_environment_);
  for (const auto& [name, value] : variables_) {
    own_environment_.insert_or_assign(name, value);
  }
  const os::Fd output = os::open_for_append(logs / "output");
  process_.emplace(os::start({.executable = program_.string(),
                              .arguments = {kProgram, "-f"},
                              .environment = own_environment_,
                              .stdout_fd = output.number(),
                              .stderr_fd = output.number(),
                              .inherited = {},
                              .directory = "/",
                              .has_own_group = true,
                              .dies_with_parent = true}));
  std::error_code ignored;
  const bool is_ready = wait_until(kStartTime, [&] {
    return process_->find_exit() ||
           (fs::exists(pipes / "control", ignored) && answers(own_environment_));
  });
  if (const auto status = process_->find_exit()) {
    refuse_start(status->signal != 0 ? fmt::format("killed by signal {}", status->signal)
                                     : fmt::format("exit code {}", status->code));
  }
  if (!is_ready) {
    refuse_start(fmt::format("no answer within {} s",
                             std::chrono::duration_cast<std::chrono::seconds>(kStartTime).count()));
  }
}

// The program without options is the client of the daemon. It fails if there is no daemon, or one
// of another user.
bool MpsDaemon::answers(const os::Environment& environment) const {
  const os::CommandResult result = os::run_command(
      {program_.string()},
      {.environment = environment, .input = "get_server_list\n", .time_limit = kAnswerTime});
  return result.status.is_success() && !result.is_out_of_time;
}

std::optional<int> MpsDaemon::pid() const {
  return process_ ? std::optional(process_->pid()) : std::nullopt;
}

void MpsDaemon::stop() {
  if (!process_) {
    return;
  }
  if (!process_->find_exit()) {
    try {
      os::run_command(
          {program_.string()},
          {.environment = own_environment_, .input = "quit\n", .time_limit = kQuitTime});
    } catch (const Error&) {
      process_->signal_group(SIGKILL);  // the program was removed meanwhile
    }
    if (!wait_until(kQuitTime, [this] { return process_->find_exit().has_value(); })) {
      process_->signal_group(SIGKILL);
      process_->wait();
    }
  }
  process_.reset();
  directory_.reset();
}

// The destructor does not run if the constructor throws, so the daemon is killed here.
void MpsDaemon::refuse_start(const std::string& reason) {
  process_->signal_group(SIGKILL);
  Error error(ExitCode::Unavailable, "cannot start MPS on this node");
  error.fact("found", reason, fmt::format("{} -f", kProgram));
  const fs::path logs = variables_.at(kLogs);
  for (const char* name : {"control.log", "server.log", "output"}) {
    for (const std::string& line : last_lines(logs / name)) {
      error.fact("log", line, name);
    }
  }
  error.hint("nvidia-smi -q -d COMPUTE: a GPU in exclusive mode accepts no second user");
  error.hint("--share-gpus without a value: the workers take turns on the GPU");
  throw std::move(error);
}

}  // namespace lockstep::supervisor

// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/job_logs.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <vector>

#include "common/base/clock.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/progress_line.h"
#include "launcher/cli/runs/logs.h"
#include "launcher/slurm/follow.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using slurm::JobInfo;
using std::chrono::milliseconds;

// The output files of a job, without duplicates. sacct does not report the files of a job that has
// ended; then the default name slurm-ID.out in the directory of the job is tried.
std::vector<fs::path> files_of(const JobInfo& job) {
  std::vector<fs::path> files;
  for (const std::string& name : {job.output, job.errors}) {
    const fs::path path(name);
    if (!name.empty() && name != "/dev/null" &&
        std::find(files.begin(), files.end(), path) == files.end()) {
      files.push_back(path);
    }
  }
  const fs::path usual = fs::path(job.directory) / fmt::format("slurm-{}.out", job.id);
  std::error_code ignored;
  if (files.empty() && job.output.empty() && fs::exists(usual, ignored)) {
    files.push_back(usual);
  }
  return files;
}

// Reads a growing file. Slurm appends to the file, or truncates it when a requeued job starts again
// without --open-mode append. A size below the offset is such a restart.
class Tail {
 public:
  Tail(fs::path path, std::optional<size_t> last_lines) : path_(std::move(path)) {
    offset_ = last_lines ? find_last_lines(path_, *last_lines) : 0;
  }

  // Writes new content to stdout.
  void write_news() {
    std::error_code fault;
    const uint64_t size = fs::file_size(path_, fault);
    if (fault) {
      return;  // does not exist yet, or not visible on this node
    }
    if (size < offset_) {
      offset_ = 0;  // a requeued job has truncated its file
    }
    constexpr uint64_t kChunkBytes = uint64_t{1} << 16;
    while (offset_ < size) {
      std::string chunk(std::min(size - offset_, kChunkBytes), '\0');
      os::InputFile(path_).read(offset_, chunk.data(), chunk.size());
      offset_ += chunk.size();
      os::write_output(chunk);
    }
  }

 private:
  fs::path path_;
  uint64_t offset_ = 0;
};

// All files of a job.
class Tails {
 public:
  Tails(const std::vector<fs::path>& files, std::optional<size_t> last_lines) {
    for (const fs::path& file : files) {
      tails_.emplace_back(file, last_lines);
    }
  }

  void write_news() {
    for (Tail& tail : tails_) {
      tail.write_news();
    }
  }

  // Writes new content for the duration `time`: files are polled more often than Slurm. Returns
  // false as soon as `stop_fd` is readable.
  bool write_for(milliseconds time, int stop_fd) {
    constexpr milliseconds kLook(200);
    for (milliseconds waited(0); waited < time; waited += kLook) {
      std::array<os::Watch, 1> watch = {os::Watch{.fd = stop_fd}};
      os::wait_for(watch, kLook);
      write_news();
      if (watch[0].is_ready) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<Tail> tails_;
};

const JobInfo& only_task(const JobArgument& job) {
  if (job.tasks.size() > 1) {
    throw Error(ExitCode::Usage, fmt::format("cannot show the logs of the whole array {}", job.id))
        .fact("found", fmt::format("{} tasks", job.tasks.size()), "scontrol")
        .hint(fmt::format("lockstep logs {}", job.tasks.front().id));
  }
  return job.tasks.front();
}

// A job that waits has no file yet, which is not an error for -f.
[[noreturn]] void refuse_logs(const JobInfo& job) {
  const std::vector<fs::path> files = files_of(job);
  if (files.empty()) {
    throw Error(ExitCode::Usage, fmt::format("cannot show the logs of job {}", job.id))
        .fact("output file",
              job.output.empty() ? "no longer known to Slurm" : job.output,
              "scontrol, sacct")
        .hint(fmt::format("lockstep status {}", job.id));
  }
  throw Error(ExitCode::Usage, fmt::format("job {} has no logs yet", job.id))
      .fact("state", slurm::progress_of({&job, 1}).headline, "scontrol")
      .fact("output file", files.front().string(), "scontrol")
      .hint(fmt::format("lockstep logs -f {}, which waits for them", job.id));
}

}  // namespace

void print_job_logs(const JobArgument& job, std::optional<size_t> last_lines) {
  const JobInfo& task = only_task(job);
  const std::vector<fs::path> files = files_of(task);
  std::error_code ignored;
  if (std::none_of(files.begin(), files.end(), [&ignored](const fs::path& file) {
        return fs::exists(file, ignored);
      })) {
    refuse_logs(task);
  }
  for (const fs::path& file : files) {
    Tail(file, last_lines).write_news();
  }
}

// One loop with two clocks: slurm::follow() asks Slurm at long intervals, because each question is
// a request to the controller that all users share; the pause in between polls the files every 200
// ms. stop_fd lets a signal end a question that hangs.
std::optional<int> follow_with_logs(const JobArgument& job, std::optional<size_t> last_lines) {
  Tails tails(files_of(only_task(job)), last_lines);
  os::SignalFd signals({SIGINT, SIGTERM});
  const slurm::Client client(os::environment(), {.stop_fd = signals.fd()});
  ProgressLine line;
  bool is_waiting = true;
  const auto look = [&] {
    std::vector<JobInfo> tasks = client.find_jobs(job.id);
    is_waiting = !tasks.empty() && slurm::is_waiting(tasks.front().state);
    return tasks;
  };
  const auto show = [&](const slurm::JobProgress& progress) {
    if (is_waiting) {
      line.show(progress);
    } else {
      line.clear();  // the output of the job replaces it
    }
  };
  const auto tell = [&](const std::string& text) {
    line.clear();
    tails.write_news();  // output of the job before the message about its end
    line.tell(text);
  };
  const auto code = slurm::follow(
      job.id,
      {.look = look,
       .pause = [&](milliseconds time) { return tails.write_for(time, signals.fd()); },
       .now = wall_time,
       .show = show,
       .tell = tell});
  // Consume pending signals, so that they are not delivered when they are unblocked.
  while (signals.find_pending()) {
  }
  return code;
}

int follow_job_logs(const JobArgument& job, std::optional<size_t> last_lines) {
  if (files_of(only_task(job)).empty()) {
    refuse_logs(only_task(job));
  }
  return follow_with_logs(job, last_lines) ? 0 : static_cast<int>(ExitCode::Interrupted);
}

}  // namespace lockstep::cli

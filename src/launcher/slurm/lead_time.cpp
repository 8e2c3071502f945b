// SPDX-License-Identifier: Apache-2.0
//
//            signal                                              time limit
//   ---------- | --- Slurm's delay --- | step | checkpoint | exit | ---->
//              |<----------------------- lead time --------------->|
//
// Too short: the checkpoint is incomplete when Slurm kills the job, and the work since the previous
// one is lost. Too long: the job trains less of its time. The durations come from the events of
// earlier runs with the same name.
#include "launcher/slurm/lead_time.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/contract/run_directory.h"

namespace lockstep::slurm {
namespace {

namespace fs = std::filesystem;

constexpr double kTick = 30;     // maximum delay of the signal
constexpr double kLeaving = 15;  // termination of all processes, and scontrol
constexpr double kSafety = 3;    // load of other users on the file system
constexpr int kMinimum = 60;
constexpr int kUnknown = 120;
constexpr int kMaximum = 65530;  // Slurm stores the time in 16 bits

}  // namespace

int lead_seconds(const contract::Pace& pace) {
  if (!pace.checkpoint_seconds) {
    return kUnknown;
  }
  // The workers agree on a common step within one second or two steps, whichever is longer.
  const double step = std::max(1.0, pace.step_seconds.value_or(0) * 2);
  const double needed = kTick + step + kSafety * *pace.checkpoint_seconds + kLeaving;
  if (needed >= kMaximum) {
    return kMaximum;
  }
  return std::max(kMinimum, static_cast<int>(std::ceil(needed / 10)) * 10);
}

// A short job would otherwise get its signal at the start.
int lead_seconds(const contract::Pace& pace, double limit_seconds) {
  return std::min(lead_seconds(pace), std::max(1, static_cast<int>(limit_seconds / 2)));
}

// The run directories of jobs are NAME-JOBID, so that one job name finds all its runs. The newest
// run can have been killed before its first checkpoint; then an older one is used.
contract::Pace find_earlier_pace(const fs::path& runs, std::string_view name) {
  const std::string prefix = std::string(name) + "-";
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code fault;  // no such directory: there are no previous runs
  for (const auto& entry : fs::directory_iterator(runs, fault)) {
    std::error_code unreadable;
    const fs::path events = contract::RunDirectory(entry.path()).events(0);
    const fs::file_time_type time = fs::last_write_time(events, unreadable);
    if (!unreadable && entry.path().filename().string().starts_with(prefix)) {
      found.emplace_back(time, entry.path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  for (const auto& [time, path] : found) {
    const contract::Pace pace = contract::find_pace(contract::RunDirectory(path));
    if (pace.checkpoint_seconds) {
      return pace;
    }
  }
  return {};
}

}  // namespace lockstep::slurm

// SPDX-License-Identifier: Apache-2.0
#include "slurm/outages.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "slurm/refusals.h"

namespace lockstep::slurm {
namespace {

struct Outage {
  std::string_view sign;  // what the client writes
  std::string_view sentence;
  std::string_view hint;
};

constexpr std::string_view kController = "cannot reach Slurm: its controller (slurmctld) is down";
constexpr std::string_view kAskSupport =
    "again in a few minutes; scontrol ping tells whether it is back";
constexpr std::string_view kMungeAbsent =
    "cannot reach Slurm: munge, by which it knows its users, does not run on this machine";
constexpr std::string_view kMungeRefused =
    "cannot reach Slurm: its controller does not accept this machine's munge credential";
constexpr std::string_view kMungeHint = "munge -n | unmunge tells more; the cluster's support";

// The more special first: a client without munge also says that it cannot authenticate.
constexpr auto kOutages = std::to_array<Outage>({
    {"Munge encode failed", kMungeAbsent, kMungeHint},
    {"Did you start munged", kMungeAbsent, kMungeHint},
    {"Munge decode failed", kMungeRefused, kMungeHint},
    {"Invalid authentication credential", kMungeRefused, kMungeHint},
    {"Protocol authentication error", kMungeRefused, kMungeHint},
    {"Invalid job credential", kMungeRefused, kMungeHint},
    {"Unable to contact slurm controller", kController, kAskSupport},
    {"Socket timed out on send/recv",
     "cannot reach Slurm: its controller is too busy",
     kAskSupport},
    {"Zero Bytes were transmitted or received", "cannot reach Slurm: it hung up", kAskSupport},
    {"Slurm backup controller in standby mode",
     "cannot reach Slurm: only its backup controller answers",
     kAskSupport},
    {"Could not establish a configuration source",
     "cannot reach Slurm: this machine has no configuration of it",
     "on a login node, or with SLURM_CONF set"},
    {"Unable to process configuration file",
     "cannot reach Slurm: this machine has no configuration of it",
     "on a login node, or with SLURM_CONF set"},
    {"Incompatible versions of client and server",
     "cannot reach Slurm: this machine's programs are of another version than its controller",
     "on a login node of the cluster"},
});

}  // namespace

std::optional<Error> find_outage(std::string_view program, std::string_view errors) {
  const auto* const found =
      std::find_if(kOutages.begin(), kOutages.end(), [errors](const Outage& outage) {
        return errors.find(outage.sign) != std::string_view::npos;
      });
  if (found == kOutages.end()) {
    return std::nullopt;
  }
  return Error(ExitCode::Unavailable, found->sentence)
      .fact("Slurm says", last_words(errors), program)
      .hint(found->hint);
}

Error missing_client(std::string_view program, std::string_view path) {
  return Error(ExitCode::Unavailable,
               fmt::format("cannot find {}: this machine has no Slurm client", program))
      .fact("looked in", path, "PATH")
      .hint("on a login node of the cluster, or --no-submit-job to write the script only");
}

Error silent_client(std::string_view program, double seconds) {
  Error error = Error(ExitCode::Unavailable, "cannot reach Slurm: its controller does not answer")
                    .fact("waited", fmt::format("{:g} s", seconds), program);
  if (program == "sbatch") {
    error.fact("the job", "may have been submitted or not: squeue --me tells");
  }
  error.hint(kAskSupport);
  return error;
}

}  // namespace lockstep::slurm

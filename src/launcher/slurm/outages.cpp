// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/outages.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "launcher/slurm/refusals.h"

namespace lockstep::slurm {
namespace {

struct Outage {
  std::string_view sign;  // part of the client output
  std::string_view sentence;
  std::string_view hint;
};

constexpr std::string_view kController = "cannot reach Slurm: its controller (slurmctld) is down";
constexpr std::string_view kAskSupport =
    "retry in a few minutes; scontrol ping shows whether it is back";
constexpr std::string_view kMungeAbsent =
    "cannot reach Slurm: munge (user authentication) does not run on this machine";
constexpr std::string_view kMungeRefused =
    "cannot reach Slurm: its controller does not accept this machine's munge credential";
constexpr std::string_view kMungeHint = "munge -n | unmunge; then ask the support team";

// More specific signs come first: a client without munge also prints an authentication error. Each
// sentence must start with "cannot reach": follow() recognizes outages by it. The signs are texts
// of slurm_strerror() and of the munge plugin.
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
    {"Zero Bytes were transmitted or received",
     "cannot reach Slurm: the connection was closed",
     kAskSupport},
    {"Slurm backup controller in standby mode",
     "cannot reach Slurm: only its backup controller answers",
     kAskSupport},
    {"Could not establish a configuration source",
     "cannot reach Slurm: no configuration on this machine",
     "run this on a login node, or set SLURM_CONF"},
    {"Unable to process configuration file",
     "cannot reach Slurm: no configuration on this machine",
     "run this on a login node, or set SLURM_CONF"},
    {"Incompatible versions of client and server",
     "cannot reach Slurm: client and controller have incompatible versions",
     "run this on a login node of the cluster"},
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
      .fact("Slurm reports", last_output_line(errors), program)
      .hint(found->hint);
}

Error missing_client(std::string_view program, std::string_view path) {
  return Error(ExitCode::Unavailable,
               fmt::format("{} not found: this machine has no Slurm client", program))
      .fact("searched", path, "PATH")
      .hint("run this on a login node, or use --no-submit-job to write only the script");
}

// For sbatch the outcome is open: the controller may have accepted the job and failed to answer.
Error silent_client(std::string_view program, double seconds) {
  Error error = Error(ExitCode::Unavailable, "cannot reach Slurm: its controller does not answer")
                    .fact("waited", fmt::format("{:g} s", seconds), program);
  if (program == "sbatch") {
    error.fact("job", "it is unknown whether it was submitted; see squeue --me");
  }
  error.hint(kAskSupport);
  return error;
}

}  // namespace lockstep::slurm

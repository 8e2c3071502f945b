// SPDX-License-Identifier: Apache-2.0
//
// Texts of slurm_strerror() and of sbatch itself, each with its meaning and a command that shows
// the valid values. An unknown text is shown as it is.
#include "launcher/slurm/refusals.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::slurm {
namespace {

struct Known {
  std::string_view word;
  std::string_view meaning;
  std::string_view advice;
};

// Error messages of sbatch; more specific ones come first.
constexpr auto kRefusals = std::to_array<Known>({
    {"Memory specification can not be satisfied",
     "no node has enough memory",
     "request less memory: sinfo -o '%P %m'"},
    {"Invalid partition name specified", "the partition does not exist", "list them: sinfo -s"},
    {"invalid partition specified", "the partition does not exist", "list them: sinfo -s"},
    {"Requested node configuration is not available",
     "too few nodes have the requested GPUs, CPUs, memory or features",
     "request less per node: sinfo -o '%P %D %c %m %G %f'"},
    {"Requested partition configuration not available",
     "too many nodes or too much time for the partition, or the partition is down",
     "request less, or another partition: sinfo -s"},
    {"Invalid account or account/partition combination",
     "the account is invalid, missing, or not allowed in the partition",
     "list your accounts: sacctmgr show assoc user=$USER format=account,partition"},
    {"Job violates accounting/QOS policy",
     "it exceeds a limit of your account or QOS: jobs, size or time",
     "request less: sacctmgr show assoc user=$USER, sacctmgr show qos"},
    {"Requested time limit is invalid",
     "the time limit is missing or exceeds the maximum of the partition",
     "request less time: sinfo -o '%P %l'"},
    {"Invalid --time specification", "the format of the time is invalid", "01:30:00"},
    {"Node count specification invalid",
     "the partition does not allow this number of nodes",
     "request another number of nodes: sinfo -s"},
    {"is not a valid node count", "the number of nodes is not a number", "--nodes 2"},
    {"Invalid qos specification",
     "the QOS does not exist or is not allowed for you",
     "list your QOS: sacctmgr show assoc user=$USER format=account,qos"},
    {"Invalid generic resource (gres) specification",
     "the cluster has no such GPU type or generic resource",
     "list them: sinfo -o '%P %G'"},
    {"Invalid Trackable RESource (TRES) specification",
     "the cluster has no such GPU type or generic resource",
     "list them: sinfo -o '%P %G'"},
    {"Invalid feature specification",
     "no node has this feature (constraint)",
     "list them: sinfo -o '%P %f'"},
    {"More processors requested than permitted",
     "it requests more processors than allowed",
     "request fewer tasks or fewer CPUs per task"},
    {"CPU count per node can not be satisfied",
     "no node has enough CPUs",
     "request fewer tasks or CPUs per node: sinfo -o '%P %c'"},
    {"CPU count specification invalid",
     "the partition does not allow this number of CPUs",
     "request fewer CPUs: sinfo -o '%P %c'"},
    {"Unable to satisfy",
     "the nodes cannot satisfy this combination of CPUs, GPUs and tasks",
     "request less per node: sinfo -o '%P %c %G'"},
    {"Invalid --mem specification", "the format of the memory is invalid", "--mem 16G"},
    {"Requested reservation is invalid",
     "the reservation does not exist or is not allowed for you",
     "list them: scontrol show reservation"},
    {"Invalid node name specified", "the node does not exist", "list them: sinfo -N"},
    {"Invalid license specification",
     "the cluster has no such license",
     "list them: scontrol show licenses"},
    {"Invalid job array specification", "the format of the array is invalid", "1-10%2"},
    {"Job dependency problem",
     "the dependency is invalid, or its job no longer exists",
     "afterok:JOBID"},
    {"Required partition not available (inactive or drain)",
     "the partition does not accept jobs",
     "use another partition: sinfo -s"},
    {"Required node not available (down, drained or reserved)",
     "required nodes are down, drained or reserved",
     "use other nodes; sinfo -R shows the reason"},
    {"User's group not permitted to use this partition",
     "you are not allowed to use this partition",
     "use another partition: sinfo -s"},
    {"Access/permission denied", "permission denied", "ask the support team"},
    {"Job submit limit",
     "you have reached the limit of submitted jobs",
     "wait until some have ended: squeue --me"},
    {"Invalid user id", "the cluster does not know this user", "ask the support team"},
    {"does not look like a batch script",
     "the script does not start with #!",
     "#!/bin/bash as its first line"},
    {"DOS line breaks", "the script has DOS line endings", "dos2unix SCRIPT"},
});

// Searches the whole output: sites print own lines before and after that of Slurm.
const Known* find_refusal(std::string_view errors) {
  const auto* const found =
      std::find_if(kRefusals.begin(), kRefusals.end(), [errors](const Known& known) {
        return errors.find(known.word) != std::string_view::npos;
      });
  return found == kRefusals.end() ? nullptr : found;
}

// Removes the prefixes of an error line: "sbatch: error: Batch job submission failed: X" becomes X.
// Prefixes can be nested, so each is removed up to its first occurrence, in this order.
std::string without_speaker(std::string line) {
  for (const std::string_view prefix : {"error: ",
                                        "fatal: ",
                                        "Batch job submission failed: ",
                                        "allocation failure: ",
                                        "slurm_load_jobs error: ",
                                        "slurm_load_ctl_conf error: ",
                                        "slurm_load_partitions: "}) {
    const size_t at = line.find(prefix);
    if (at != std::string::npos) {
      line.erase(0, at + prefix.size());
    }
  }
  return line;
}

}  // namespace

Explanation explain_refusal(std::string_view errors) {
  if (const Known* known = find_refusal(errors)) {
    return {.meaning = std::string(known->meaning), .advice = std::string(known->advice)};
  }
  return {.meaning = last_output_line(errors), .advice = ""};
}

// All lines are shown in addition to the explanation: a job submit plugin of the site often prints
// the real reason in its own words.
Error refusal(std::string_view errors) {
  const Explanation explanation = explain_refusal(errors);
  const bool is_known = find_refusal(errors) != nullptr;
  Error error(ExitCode::Usage,
              is_known ? fmt::format("cannot submit the job: {}", explanation.meaning)
                       : std::string("cannot submit the job: rejected by Slurm"));
  for (const std::string& line : split(errors, '\n')) {
    if (!line.empty()) {
      error.fact("Slurm reports", without_speaker(line), "sbatch");
    }
  }
  if (!explanation.advice.empty()) {
    error.hint(explanation.advice);
  }
  return error;
}

std::string last_output_line(std::string_view errors) {
  std::string last;
  for (const std::string& line : split(errors, '\n')) {
    last = line.empty() ? last : line;
  }
  return without_speaker(last);
}

}  // namespace lockstep::slurm

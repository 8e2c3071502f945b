// SPDX-License-Identifier: Apache-2.0
#include "slurm/refusals.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "base/text.h"

namespace lockstep::slurm {
namespace {

struct Known {
  std::string_view word;
  std::string_view meaning;
  std::string_view advice;
};

// sbatch's refusals, by what they contain; the more special first.
constexpr auto kRefusals = std::to_array<Known>({
    {"Memory specification can not be satisfied",
     "no node has so much memory",
     "less memory: sinfo -o '%P %m'"},
    {"Invalid partition name specified", "there is no such partition", "one of these: sinfo -s"},
    {"invalid partition specified", "there is no such partition", "one of these: sinfo -s"},
    {"Requested node configuration is not available",
     "no node, or not so many, has what the job asks for: GPUs, CPUs, memory or features",
     "less for each node: sinfo -o '%P %D %c %m %G %f'"},
    {"Requested partition configuration not available",
     "the partition cannot give this now: too many nodes, too long a time, or it is down",
     "less, or another partition: sinfo -s"},
    {"Invalid account or account/partition combination",
     "the account is wrong, missing, or may not use the partition",
     "one of your accounts: sacctmgr show assoc user=$USER format=account,partition"},
    {"Job violates accounting/QOS policy",
     "it goes beyond a limit of your account or QOS: jobs, size or time",
     "less of it: sacctmgr show assoc user=$USER, sacctmgr show qos"},
    {"Requested time limit is invalid",
     "the time limit is missing, or longer than the partition allows",
     "a shorter time: sinfo -o '%P %l'"},
    {"Invalid --time specification", "the time is not one that Slurm understands", "01:30:00"},
    {"Node count specification invalid",
     "the number of nodes is not one that the partition gives",
     "another number of nodes: sinfo -s"},
    {"is not a valid node count", "the number of nodes is no number", "--nodes 2"},
    {"Invalid qos specification",
     "there is no such QOS, or you may not use it",
     "one of yours: sacctmgr show assoc user=$USER format=account,qos"},
    {"Invalid generic resource (gres) specification",
     "the cluster has no such kind of GPU or other resource",
     "one of these: sinfo -o '%P %G'"},
    {"Invalid Trackable RESource (TRES) specification",
     "the cluster has no such kind of GPU or other resource",
     "one of these: sinfo -o '%P %G'"},
    {"Invalid feature specification",
     "no node has such a feature (constraint)",
     "one of these: sinfo -o '%P %f'"},
    {"More processors requested than permitted",
     "it asks for more processors than it may have",
     "fewer tasks, or fewer CPUs for each"},
    {"CPU count per node can not be satisfied",
     "no node has so many CPUs",
     "fewer tasks or CPUs per node: sinfo -o '%P %c'"},
    {"CPU count specification invalid",
     "the number of CPUs is not one that the partition gives",
     "fewer CPUs: sinfo -o '%P %c'"},
    {"Unable to satisfy",
     "the nodes cannot give this many CPUs, GPUs or tasks together",
     "less for each node: sinfo -o '%P %c %G'"},
    {"Invalid --mem specification", "the memory is not one that Slurm understands", "--mem 16G"},
    {"Requested reservation is invalid",
     "there is no such reservation, or you may not use it",
     "one of these: scontrol show reservation"},
    {"Invalid node name specified", "there is no node of that name", "one of these: sinfo -N"},
    {"Invalid license specification",
     "the cluster has no such licence",
     "one of these: scontrol show licenses"},
    {"Invalid job array specification", "the array is not one that Slurm understands", "1-10%2"},
    {"Job dependency problem", "the dependency is wrong, or its job is gone", "afterok:JOBID"},
    {"Required partition not available (inactive or drain)",
     "the partition takes no jobs now",
     "another partition: sinfo -s"},
    {"Required node not available (down, drained or reserved)",
     "nodes that it needs are down, drained or reserved",
     "other nodes: sinfo -R tells why"},
    {"User's group not permitted to use this partition",
     "you may not use this partition",
     "another partition: sinfo -s"},
    {"Access/permission denied", "you may not do this", "ask the cluster's support"},
    {"Job submit limit",
     "you have as many jobs submitted as you may",
     "wait until some have ended: squeue --me"},
    {"Invalid user id", "the cluster does not know you", "ask the cluster's support"},
    {"does not look like a batch script",
     "the script does not begin with #!",
     "#!/bin/bash as its first line"},
    {"DOS line breaks", "the script has Windows' line ends", "dos2unix SCRIPT"},
});

const Known* find_refusal(std::string_view errors) {
  const auto* const found =
      std::find_if(kRefusals.begin(), kRefusals.end(), [errors](const Known& known) {
        return errors.find(known.word) != std::string_view::npos;
      });
  return found == kRefusals.end() ? nullptr : found;
}

// "sbatch: error: Batch job submission failed: X" says X.
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
  return {.meaning = last_words(errors), .advice = ""};
}

Error refusal(std::string_view errors) {
  const Explanation explanation = explain_refusal(errors);
  const bool is_known = find_refusal(errors) != nullptr;
  Error error(ExitCode::Usage,
              is_known ? fmt::format("cannot submit the job: {}", explanation.meaning)
                       : std::string("cannot submit the job: Slurm refuses it"));
  for (const std::string& line : split(errors, '\n')) {
    if (!line.empty()) {
      error.fact("Slurm says", without_speaker(line), "sbatch");
    }
  }
  if (!explanation.advice.empty()) {
    error.hint(explanation.advice);
  }
  return error;
}

std::string last_words(std::string_view errors) {
  std::string last;
  for (const std::string& line : split(errors, '\n')) {
    last = line.empty() ? last : line;
  }
  return without_speaker(last);
}

}  // namespace lockstep::slurm

// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/reasons.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>

#include "common/base/text.h"

namespace lockstep::slurm {
namespace {

struct Known {
  std::string_view word;
  std::string_view meaning;
  std::string_view advice;
  bool is_hopeless = false;
};

// From job_reason_string() of Slurm. Longer words that begin with a shorter one ("Dependency...")
// are distinguished by find_reason(), which requires a whole word.
constexpr auto kReasons = std::to_array<Known>({
    {"Resources", "all suitable nodes are busy", "", false},
    {"Priority", "jobs with a higher priority are ahead of it", "", false},
    {"Dependency", "it depends on another job that has not ended", "", false},
    {"DependencyNeverSatisfied",
     "its dependency can never be satisfied",
     "cancel it and submit it again without the dependency",
     true},
    {"BeginTime", "its begin time has not been reached", "", false},
    {"Cleaning", "Slurm is still cleaning up after its previous start", "", false},
    {"JobArrayTaskLimit", "the array has reached its limit of running tasks", "", false},
    {"JobHeldUser", "it was held by its user", "scontrol release JOBID", true},
    {"JobHeldAdmin", "it was held by an administrator", "ask the support team", true},
    {"job requeued in held state",
     "it was requeued and held",
     "scontrol release JOBID, after the problem is fixed",
     true},
    {"launch failed requeued held",
     "a node failed to start it, and Slurm held it",
     "scontrol release JOBID; if it happens again, report the node to the support team",
     true},
    {"PartitionNodeLimit",
     "it requests more nodes than the partition allows or has available",
     "request fewer nodes, or another partition: sinfo",
     true},
    {"PartitionTimeLimit",
     "its time limit exceeds the maximum of the partition",
     "request less time, or another partition: sinfo -o '%P %l'",
     true},
    {"PartitionConfig",
     "its request exceeds a limit of the partition: nodes, CPUs, memory or time",
     "request less, or another partition: scontrol show partition",
     true},
    {"PartitionDown", "the partition is down", "use another partition: sinfo", false},
    {"PartitionInactive", "the partition is inactive", "use another partition: sinfo", false},
    {"AccountNotAllowed",
     "its account is not allowed in the partition",
     "use another account or partition: scontrol show partition",
     true},
    {"QOSNotAllowed",
     "its QOS is not allowed in the partition",
     "use another QOS or partition: scontrol show partition",
     true},
    {"ReqNodeNotAvail",
     "required nodes are down, drained or reserved, often for upcoming maintenance",
     "use a time limit that ends before the reservation: scontrol show reservation",
     false},
    {"Nodes required for job are DOWN, DRAINED or reserved",
     "required nodes are down, drained or reserved",
     "sinfo -R shows the reason",
     false},
    {"NodeDown", "an allocated or required node is down", "sinfo -R shows the reason", false},
    {"Reservation", "its reservation has not started", "scontrol show reservation", false},
    {"ReservationDeleted",
     "its reservation was deleted",
     "submit it again without the reservation",
     true},
    {"Licenses", "all required licenses are in use", "", false},
    {"BadConstraints",
     "no node meets all its requirements",
     "use other constraints: sinfo -o '%P %f %G'",
     true},
    {"FrontEndDown", "no front-end node is up", "", false},
    {"InvalidAccount", "its account is no longer valid", "sacctmgr show assoc user=$USER", true},
    {"InvalidQOS", "its QOS is no longer valid", "sacctmgr show assoc user=$USER", true},
    {"MaxMemPerLimit", "its memory request exceeds the limit", "request less memory", true},
    {"BurstBufferResources", "the burst buffer is full", "", false},
    {"BurstBufferStageIn", "its data is being copied to the burst buffer", "", false},
    {"DeadLine", "it cannot end before its deadline", "set a later deadline or less time", true},
    {"Prolog", "its nodes are being prepared", "", false},
    {"WaitingForScheduling", "the scheduler has not considered it yet", "", false},
    {"SchedDefer", "the scheduler has not considered it yet", "", false},
    {"JobLaunchFailure", "Slurm could not start it, or a signal killed its script", "", false},
    {"NonZeroExitCode", "its script failed", "", false},
    {"TimeLimit", "it reached its time limit", "", false},
    {"OutOfMemory", "it used more memory than it requested", "request more memory", false},
    {"RaisedSignal", "it was killed by a signal", "", false},
});

std::string spaced(std::string_view text) {
  std::string words(text);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// Finds the entry that equals `reason` or is its first part ("ReqNodeNotAvail,
// UnavailableNodes:n2"). scontrol prints '_' where squeue prints spaces.
const Known* find_reason(std::string_view reason) {
  const std::string words = spaced(reason);
  const auto* const found =
      std::find_if(kReasons.begin(), kReasons.end(), [&words](const Known& known) {
        return words.starts_with(known.word) &&
               (words.size() == known.word.size() || !is_letter(words[known.word.size()]));
      });
  return found == kReasons.end() ? nullptr : found;
}

struct Piece {
  std::string_view part;
  std::string_view words;
};

// Words of the first piece that `text` contains; empty if there is none.
std::string_view words_for(std::string_view text, std::span<const Piece> pieces) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [text](const Piece& piece) {
    return text.find(piece.part) != std::string_view::npos;
  });
  return found == pieces.end() ? std::string_view() : found->words;
}

// QOSMaxGRESPerUser, AssocGrpCPUMinutesLimit, AssocMaxJobsLimit: owner, resource and scope of a
// limit. Slurm has more than a hundred such reasons, built by a rule: OWNER (QOS or Assoc), Grp,
// Max or Min, RESOURCE, and a scope or "Limit". They are composed here in the same way instead of
// being listed. "Minutes" precedes the resources, because AssocGrpCPUMinutesLimit is about compute
// time.
Explanation explain_limit(std::string_view reason) {
  constexpr auto kThings = std::to_array<Piece>({{"Minutes", "compute time"},
                                                 {"GRES", "GPUs"},
                                                 {"Gres", "GPUs"},
                                                 {"Node", "nodes"},
                                                 {"Mem", "memory"},
                                                 {"CPU", "CPUs"},
                                                 {"Cpu", "CPUs"},
                                                 {"Wall", "time"},
                                                 {"Submit", "submitted jobs"},
                                                 {"Job", "running jobs"},
                                                 {"Billing", "billed resources"},
                                                 {"License", "licenses"},
                                                 {"BB", "burst buffer"}});
  constexpr auto kScopes = std::to_array<Piece>({{"PerUser", "per user"},
                                                 {"PerAccount", "per account"},
                                                 {"PerJob", "per job"},
                                                 {"PerNode", "per node"},
                                                 {"Grp", "over all jobs"}});
  const std::string_view thing = words_for(reason, kThings);
  const std::string_view scope = words_for(reason, kScopes);
  const bool is_time = reason.find("Minutes") != std::string_view::npos;
  const std::string limit = fmt::format(
      "{}{}{}", thing.empty() ? "some resource" : thing, scope.empty() ? "" : " ", scope);
  if (reason.starts_with("QOSMin")) {
    return {.meaning = fmt::format("its request is below the minimum of its QOS: {}", limit),
            .advice = "request more, or use another QOS: sacctmgr show qos"};
  }
  if (scope == "per job" || scope == "per node") {
    return {.meaning = fmt::format("its request exceeds a limit of its {}: {}",
                                   reason.starts_with("QOS") ? "QOS" : "account",
                                   limit),
            .advice = "request less"};
  }
  const std::string_view whose = reason.starts_with("QOS") ? "QOS" : "account";
  return {.meaning = fmt::format("a limit of its {} is reached: {}", whose, limit),
          .advice = is_time ? "the compute budget may be used up; ask the project manager"
                            : "wait until other jobs have ended, or request less"};
}

bool is_limit(std::string_view reason) {
  return (reason.starts_with("QOS") || reason.starts_with("Assoc")) &&
         reason.find(' ') == std::string_view::npos;
}

}  // namespace

Explanation explain_reason(std::string_view reason) {
  if (const Known* known = find_reason(reason)) {
    return {.meaning = std::string(known->meaning), .advice = std::string(known->advice)};
  }
  if (is_limit(reason)) {
    return explain_limit(reason);
  }
  return {.meaning = std::string(reason), .advice = ""};
}

std::string advice_for(std::string_view reason, std::string_view job) {
  constexpr std::string_view kPlaceholder = "JOBID";
  std::string advice = explain_reason(reason).advice;
  const size_t at = advice.find(kPlaceholder);
  return at == std::string::npos ? advice : advice.replace(at, kPlaceholder.size(), job);
}

std::string describe_reason(std::string_view reason) {
  const Explanation explanation = explain_reason(reason);
  return explanation.meaning == reason ? explanation.meaning
                                       : fmt::format("{} ({})", explanation.meaning, reason);
}

// follow() shows the advice for such a job at once, because waiting does not help.
bool is_hopeless(std::string_view reason) {
  const Known* known = find_reason(reason);
  return known != nullptr && known->is_hopeless;
}

}  // namespace lockstep::slurm

// SPDX-License-Identifier: Apache-2.0
#include "slurm/reasons.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>

#include "base/text.h"

namespace lockstep::slurm {
namespace {

struct Known {
  std::string_view word;
  std::string_view meaning;
  std::string_view advice;
  bool is_hopeless = false;
};

constexpr auto kReasons = std::to_array<Known>({
    {"Resources", "all suitable nodes are busy", "", false},
    {"Priority", "jobs with a higher priority come first", "", false},
    {"Dependency", "it waits for another job", "", false},
    {"DependencyNeverSatisfied",
     "the job that it depends on did not end as it must",
     "cancel it, and submit it again without the dependency",
     true},
    {"BeginTime", "its time to begin has not come", "", false},
    {"Cleaning", "Slurm still clears up behind its last run", "", false},
    {"JobArrayTaskLimit", "as many tasks of the array run as may at once", "", false},
    {"JobHeldUser", "its user has put it on hold", "scontrol release JOBID", true},
    {"JobHeldAdmin", "an administrator has put it on hold", "ask the cluster's support", true},
    {"job requeued in held state",
     "it was requeued and put on hold",
     "scontrol release JOBID, once the fault is mended",
     true},
    {"launch failed requeued held",
     "a node could not start it, and Slurm has put it on hold",
     "scontrol release JOBID; if it comes again, tell the cluster's support the node",
     true},
    {"PartitionNodeLimit",
     "it asks for more nodes than the partition gives, or has up",
     "fewer nodes, or another partition: sinfo",
     true},
    {"PartitionTimeLimit",
     "its time limit is longer than the partition allows",
     "a shorter time, or another partition: sinfo -o '%P %l'",
     true},
    {"PartitionConfig",
     "the partition cannot give what it asks for: nodes, CPUs, memory or time",
     "less, or another partition: scontrol show partition",
     true},
    {"PartitionDown", "the partition is down", "another partition: sinfo", false},
    {"PartitionInactive", "the partition is not in use", "another partition: sinfo", false},
    {"AccountNotAllowed",
     "its account may not use the partition",
     "another account or partition: scontrol show partition",
     true},
    {"QOSNotAllowed",
     "its QOS may not be used in the partition",
     "another QOS or partition: scontrol show partition",
     true},
    {"ReqNodeNotAvail",
     "nodes that it needs are down, drained or reserved, often for a maintenance to come",
     "a shorter time limit may let it end before a reservation: scontrol show reservation",
     false},
    {"Nodes required for job are DOWN, DRAINED or reserved",
     "nodes that it needs are down, drained or reserved",
     "sinfo -R tells why",
     false},
    {"NodeDown", "a node that it had or needs is down", "sinfo -R tells why", false},
    {"Reservation", "its reservation has not begun", "scontrol show reservation", false},
    {"ReservationDeleted",
     "its reservation was deleted",
     "submit it without the reservation",
     true},
    {"Licenses", "all of a licence that it needs are in use", "", false},
    {"BadConstraints",
     "no node has all that it asks for",
     "other constraints: sinfo -o '%P %f %G'",
     true},
    {"FrontEndDown", "no front end node is up", "", false},
    {"InvalidAccount", "its account is not valid any more", "sacctmgr show assoc user=$USER", true},
    {"InvalidQOS", "its QOS is not valid any more", "sacctmgr show assoc user=$USER", true},
    {"MaxMemPerLimit", "it asks for more memory than the partition gives", "less memory", true},
    {"BurstBufferResources", "the burst buffer is full", "", false},
    {"BurstBufferStageIn", "its data are being copied to the burst buffer", "", false},
    {"DeadLine", "it cannot end before its deadline", "a later deadline, or a shorter time", true},
    {"Prolog", "its nodes are being prepared", "", false},
    {"WaitingForScheduling", "Slurm has not looked at it yet", "", false},
    {"SchedDefer", "Slurm has not looked at it yet", "", false},
    {"JobLaunchFailure", "Slurm could not start it, or a signal ended its script", "", false},
    {"NonZeroExitCode", "its script ended with an error", "", false},
    {"TimeLimit", "its time ran out", "", false},
    {"OutOfMemory", "it used more memory than it asked for", "more memory", false},
    {"RaisedSignal", "a signal ended it", "", false},
});

std::string spaced(std::string_view text) {
  std::string words(text);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// The one that is `reason`, or how it begins ("ReqNodeNotAvail, UnavailableNodes:n2"); scontrol has
// '_' where squeue has spaces.
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

// Of the first that `text` contains; empty when there is none.
std::string_view words_for(std::string_view text, std::span<const Piece> pieces) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [text](const Piece& piece) {
    return text.find(piece.part) != std::string_view::npos;
  });
  return found == pieces.end() ? std::string_view() : found->words;
}

// QOSMaxGRESPerUser, AssocGrpCPUMinutesLimit, AssocMaxJobsLimit: whose limit, of what, for whom.
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
                                                 {"License", "licences"},
                                                 {"BB", "burst buffer"}});
  constexpr auto kScopes = std::to_array<Piece>({{"PerUser", "per user"},
                                                 {"PerAccount", "per account"},
                                                 {"PerJob", "per job"},
                                                 {"PerNode", "per node"},
                                                 {"Grp", "of all jobs together"}});
  const std::string_view thing = words_for(reason, kThings);
  const std::string_view scope = words_for(reason, kScopes);
  const bool is_time = reason.find("Minutes") != std::string_view::npos;
  const std::string limit = fmt::format(
      "{}{}{}", thing.empty() ? "some resource" : thing, scope.empty() ? "" : " ", scope);
  if (reason.starts_with("QOSMin")) {
    return {.meaning = fmt::format("it asks for less than the least of its QOS: {}", limit),
            .advice = "more of it, or another QOS: sacctmgr show qos"};
  }
  if (scope == "per job" || scope == "per node") {
    return {.meaning = fmt::format("it asks for more than its {} allows: {}",
                                   reason.starts_with("QOS") ? "QOS" : "account",
                                   limit),
            .advice = "less of it"};
  }
  const std::string_view whose = reason.starts_with("QOS") ? "QOS" : "account";
  return {.meaning = fmt::format("it would go beyond a limit of its {}: {}", whose, limit),
          .advice = is_time ? "the grant may be used up; ask whoever manages the project"
                            : "it starts when others of these jobs have ended, or asks for less"};
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

bool is_hopeless(std::string_view reason) {
  const Known* known = find_reason(reason);
  return known != nullptr && known->is_hopeless;
}

}  // namespace lockstep::slurm

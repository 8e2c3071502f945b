// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "contract/run_directory.h"

// What a run keeps over the turns that its Slurm job has: RUN/requeue.json, written by the launcher
// whenever it puts the job back, or decides not to.
namespace lockstep::contract {

struct RequeueRecord {
  std::string job;           // Slurm's number; another job begins a new account
  int requeues = 0;          // how often the launcher has put it back
  int without_progress = 0;  // turns in a row that have saved nothing, the last one included
  long long step = 0;        // of the newest complete checkpoint at the end of the last turn
  double time = 0;           // of that end, in seconds since the epoch
  bool is_again = false;     // whether the job was put back then
  std::string text;          // what the user was told

  bool operator==(const RequeueRecord&) const = default;
};

std::string to_json(const RequeueRecord& record);

// Throws an Error (74) if the text is no record.
RequeueRecord parse_requeue_record(std::string_view text);

// The account of `job`: an empty one where there is none, or that of another job, or one that
// cannot be read, which must not keep a job from going on.
RequeueRecord find_requeue_record(const RunDirectory& run, const std::string& job);

// Throws an Error (74).
void write_requeue_record(const RunDirectory& run, const RequeueRecord& record);

// The step of the newest complete checkpoint; 0 where there is none.
long long find_saved_step(const RunDirectory& run);

}  // namespace lockstep::contract

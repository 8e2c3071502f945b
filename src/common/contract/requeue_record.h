// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/contract/run_directory.h"

// RUN/requeue.json: the state that a run keeps across the allocations of its Slurm job. The
// launcher writes it whenever it requeues the job or decides not to.
namespace lockstep::contract {

struct RequeueRecord {
  std::string job;           // Slurm job number; another job starts a new record
  int requeues = 0;          // how often the launcher requeued the job
  int without_progress = 0;  // consecutive allocations without a checkpoint, with the last
  long long step = 0;        // of the newest complete checkpoint at the end of the last allocation
  double time = 0;           // of that end, in seconds since the epoch
  bool is_again = false;     // whether the job was requeued then
  std::string text;          // message for the user

  bool operator==(const RequeueRecord&) const = default;
};

std::string to_json(const RequeueRecord& record);

// Throws an Error (74) if the text is not a record.
RequeueRecord parse_requeue_record(std::string_view text);

// The record of `job`. Empty if there is none, if it belongs to another job, or if it cannot be
// read: a damaged record must not prevent a job from continuing.
RequeueRecord find_requeue_record(const RunDirectory& run, const std::string& job);

// Throws an Error (74).
void write_requeue_record(const RunDirectory& run, const RequeueRecord& record);

// The step of the newest complete checkpoint; 0 if there is none.
long long find_saved_step(const RunDirectory& run);

}  // namespace lockstep::contract

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::contract {

// The paths of the files of a run. Launcher and training code get them from this class only.
//
//   RUN/plan.json                    launch plan
//   RUN/state.json                   current state, contract/run_state.h
//   RUN/cancel                       request to stop
//   RUN/requeue.json                 number of requeues, contract/requeue_record.h
//   RUN/logs/attempt-0/rank-3.log    output of a worker (stdout and stderr)
//   RUN/logs/attempt-0/rank-3.error  exception of a Python worker, or unprinted_error.h, as JSON
//   RUN/events/rank-3.jsonl          events of a worker, one JSON line each
//   RUN/events/output-3.jsonl        metrics that --metric found in the output of a worker
//   RUN/events/node-1.jsonl          samples of a node, one JSON line each
//   RUN/tensorboard/                 the same data for TensorBoard, if requested
//   RUN/failure.json                 failure report, if the run failed
//   RUN/checkpoints/step-00000100/   complete only with its COMPLETE marker
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::string name() const;  // of the directory
  std::filesystem::path plan() const { return root_ / "plan.json"; }
  std::filesystem::path state() const { return root_ / "state.json"; }
  std::filesystem::path cancel() const { return root_ / "cancel"; }
  std::filesystem::path requeue() const { return root_ / "requeue.json"; }
  std::filesystem::path failure() const { return root_ / "failure.json"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }
  std::filesystem::path events() const { return root_ / "events"; }
  std::filesystem::path log(int attempt, int rank) const;
  std::filesystem::path error(int attempt, int rank) const;
  std::filesystem::path events(int rank) const;
  std::filesystem::path output_metrics(int rank) const;
  std::filesystem::path node_samples(int node) const;

  // Whether the directory contains events of lockstep run or of a program started without it.
  bool has_events() const;

  // The existing attempts with logs, and the ranks with a log in one attempt, in ascending order.
  std::vector<int> find_attempts() const;
  std::vector<int> find_logged_ranks(int attempt) const;

 private:
  std::filesystem::path root_;
};

}  // namespace lockstep::contract

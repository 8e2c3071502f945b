// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::contract {

// Where the files of one run lie. Both towers name them through this class only.
//
//   RUN/plan.json                    what was started
//   RUN/state.json                   how it is doing, contract/run_state.h
//   RUN/cancel                       somebody wants it to stop
//   RUN/requeue.json                 how often its job was put back, contract/requeue_record.h
//   RUN/logs/attempt-0/rank-3.log    what a worker said (stdout and stderr)
//   RUN/logs/attempt-0/rank-3.error  the exception of a Python worker that reports one, as JSON
//   RUN/events/rank-3.jsonl          what a worker reports: one JSON line per event
//   RUN/events/output-3.jsonl        what --metric has found in a worker's output
//   RUN/events/node-1.jsonl          how a node is doing: one JSON line per sample
//   RUN/tensorboard/                 the same for TensorBoard, where somebody wants it
//   RUN/failure.json                 why the run failed, if it did
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

  // Whether somebody reports there, lockstep run or a program that was started without it.
  bool has_events() const;

  // What is there now, ascending: the attempts that have logs, and the ranks that have one in an
  // attempt.
  std::vector<int> find_attempts() const;
  std::vector<int> find_logged_ranks(int attempt) const;

 private:
  std::filesystem::path root_;
};

}  // namespace lockstep::contract

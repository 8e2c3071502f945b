// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::contract {

// Where the files of one run lie. Both towers name them through this class only.
//
//   RUN/plan.json                    what was started
//   RUN/logs/attempt-0/rank-3.log    what a worker said (stdout and stderr)
//   RUN/events/rank-3.jsonl          what a worker reports: one JSON line per event
//   RUN/failure.json                 why the run failed, if it did
//   RUN/checkpoints/step-00000100/   complete only with its COMPLETE marker
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path plan() const { return root_ / "plan.json"; }
  std::filesystem::path failure() const { return root_ / "failure.json"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path log(int attempt, int rank) const;
  std::filesystem::path events(int rank) const;

 private:
  std::filesystem::path root_;
};

}  // namespace lockstep::contract

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/out_of_memory.h"
#include "common/contract/run_directory.h"
#include "common/os/process.h"

// RUN/failure.json: why a run or an attempt failed. docs/launch.md describes its fields.
namespace lockstep::contract {

// A place in a Python program.
struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;  // empty: unknown

  bool operator==(const PythonFrame&) const = default;
};

// The exception that ended a Python worker.
struct PythonException {
  std::string text;  // "RuntimeError: shapes do not match"
  std::optional<PythonFrame> raised_at;
  // The nearest caller outside installed libraries; absent if raised_at is outside itself.
  std::optional<PythonFrame> called_from;

  bool operator==(const PythonException&) const = default;
};

// Workers of one node that were stopped because another worker failed.
struct StoppedWorkers {
  std::string node;
  int count = 0;

  bool operator==(const StoppedWorkers&) const = default;
};

// The first failure of an attempt. The agent of the node on which it happened creates it and sends
// it to the leader as JSON.
struct Failure {
  std::string who;  // "rank 3", "the fork server of ranks 0-3", "node node-b"
  int rank = 0;
  int local_rank = 0;
  std::string node;
  int pid = 0;  // 0: not a process; rank, local rank and status have no meaning then
  int attempt = 0;
  int max_restarts = 0;
  double seconds = 0;  // since the start of the attempt; 0: unknown
  os::ExitStatus status;
  std::string cause;  // for a failure without an exit status; else empty
  OutOfMemory out_of_memory = OutOfMemory::No;
  std::optional<PythonException> exception;
  std::vector<StoppedWorkers> stopped;
  std::string note;  // additional information from the agent
  std::filesystem::path log;
  std::vector<std::string> last_lines;

  bool operator==(const Failure&) const = default;
};

// A failure with the texts that the launcher derives from it.
struct FailureReport {
  Failure failure;
  std::string how;     // "exited with code 3"
  std::string advice;  // the id of the hint, for programs; empty: no hint
  std::string hint;    // for people: one sentence with something to type; empty if advice is

  bool operator==(const FailureReport&) const = default;
};

std::string to_json(const FailureReport& report);

// Throws an Error (74) if the text is something else.
FailureReport parse_failure_report(std::string_view text);

// Nothing if there is no report. Throws an Error (74) if it cannot be read.
std::optional<FailureReport> find_failure_report(const RunDirectory& run);

}  // namespace lockstep::contract

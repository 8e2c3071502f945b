// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/event_store.h"
#include "os/files.h"
#include "os/output_file.h"

namespace lockstep::monitor {

// A message as it stands in a file: its length, the message, and a checksum of each.
std::string record_of(std::string_view message);

// A run as a file for TensorBoard, which grows with the run.
//
// A series is a scalar of the same tag. Starts, restarts, checkpoints and the end are texts, as
// marks/restart. When rank 0 goes back to an earlier step, TensorBoard is told to forget what there
// was from that step on, as it is done again. A value whose step nobody knows has its number within
// its series.
class TensorboardFile {
 public:
  // Begins events.out.tfevents.TIME.HOST.PID.lockstep in `directory`, which is made. Throws an
  // Error: 69 where another process writes there, 74 where it cannot be written.
  TensorboardFile(const std::filesystem::path& directory, double now);

  // Appends; in the file when it returns.
  void add(const News& news);

  // Writes what was held back: a restart is told at the first step after it.
  void finish();

  // Earlier files of lockstep's in the directory hold what this one has; others stay.
  void remove_earlier();

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  struct Entry;

  void write_scalar(const Entry& entry);
  void write_mark(const Mark& mark);
  void write_text(const Mark& mark, int64_t step);
  void put(std::string_view message);
  void flush();

  os::DirectoryLock lock_;
  std::vector<std::filesystem::path> earlier_;
  os::OutputFile file_;
  std::string buffer_;
  std::map<std::string, int64_t, std::less<>> counts_;  // of values without a step, by tag
  std::vector<Mark> restarts_;                          // that no step has followed yet
  int64_t step_ = 0;                                    // rank 0's
  bool has_steps_ = false;                              // by events of its own
};

}  // namespace lockstep::monitor

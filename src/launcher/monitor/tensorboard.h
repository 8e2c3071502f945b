// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/files.h"
#include "common/os/output_file.h"
#include "launcher/monitor/event_store.h"

namespace lockstep::monitor {

// Frames a message as TensorFlow's record files do (tensorflow/core/lib/io/record_writer.h).
// All numbers are little-endian:
//
//   uint64 length | uint32 masked CRC-32C of length | message | uint32 masked CRC-32C of message
std::string record_of(std::string_view message);

// Writes a run as an event file for TensorBoard, which grows with the run.
//
// A series becomes a scalar with the same tag. Starts, restarts, checkpoints and the end become
// texts, e.g. marks/restart. When rank 0 returns to an earlier step, a SessionLog::START message
// makes TensorBoard discard all values from that step on, because they are computed again. If the
// step of a value is unknown, its index in the series is used instead.
class TensorboardFile {
 public:
  // Creates `directory` if needed, and in it events.out.tfevents.TIME.HOST.PID.lockstep. Throws an
  // Error: 69 if another process is writing there, 74 if the file cannot be written.
  TensorboardFile(const std::filesystem::path& directory, double now);

  // Appends values and marks; they have been written to the file when it returns.
  void add(const News& news);

  // Writes pending restarts. A restart is held back until the first step after it, whose number it
  // gets.
  void finish();

  // Deletes earlier files of lockstep in the directory, whose values this file also contains. Files
  // of other programs are kept.
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
  std::map<std::string, int64_t, std::less<>> counts_;  // values without a step, by tag
  std::vector<Mark> restarts_;                          // not followed by a step yet
  int64_t step_ = 0;                                    // current step of rank 0
  bool has_steps_ = false;                              // rank 0 writes step events
};

}  // namespace lockstep::monitor

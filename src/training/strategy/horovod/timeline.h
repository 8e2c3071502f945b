// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::strategy::horovod {

// Writes a Chrome trace (JSON) of the phases of each tensor, for chrome://tracing or Perfetto: one
// row per tensor, with nested phases. Thread-safe; a thread of its own writes the file. The file
// can be read at any time, also after a crash: only the closing bracket is missing, which viewers
// do not need.
class Timeline {
 public:
  // Throws an Error (74) if the file cannot be created.
  Timeline(std::filesystem::path path, bool mark_cycles);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void begin(const std::string& tensor, std::string_view phase);
  // Ends the innermost phase of the tensor.
  void end(const std::string& tensor);
  // The tensor is ready on `rank`.
  void tick(const std::string& tensor, int rank);
  // The start of a cycle, if cycles are marked.
  void cycle();

 private:
  struct Event {
    std::string row;
    char kind;  // event type of the trace format: B, E, X or i
    std::string name;
    double microseconds;
  };

  void push(const std::string& row, char kind, std::string name);
  void write_all();
  void write(const Event& event);
  int row_of(const std::string& name);

  std::filesystem::path path_;
  bool mark_cycles_;
  std::chrono::steady_clock::time_point start_;
  std::ofstream file_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Event> waiting_;
  bool closing_ = false;
  // Used only by the writer thread.
  std::map<std::string, int> rows_;
  std::map<int, std::vector<std::string>> open_;  // open phases of a row, innermost last
  bool is_first_ = true;
  std::jthread writer_;
};

}  // namespace lockstep::strategy::horovod

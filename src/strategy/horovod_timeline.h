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

// A Chrome trace (JSON) of what happens to each tensor, for chrome://tracing or Perfetto: one row
// per tensor, phases inside each other. Any thread may call; a thread of its own writes. The file
// can be read at any moment, and after a crash, but for the closing bracket that viewers do
// without.
class Timeline {
 public:
  // Throws an Error (74) when the file cannot be made.
  Timeline(std::filesystem::path path, bool mark_cycles);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void begin(const std::string& tensor, std::string_view phase);
  // Ends the innermost phase of this tensor.
  void end(const std::string& tensor);
  // `rank` has the tensor ready.
  void tick(const std::string& tensor, int rank);
  // The start of a cycle, if they are to be marked.
  void cycle();

 private:
  struct Event {
    std::string row;
    char kind;  // of the trace format: B, E, X or i
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
  // The writer's own.
  std::map<std::string, int> rows_;
  std::map<int, std::vector<std::string>> open_;  // phases of a row, innermost last
  bool is_first_ = true;
  std::jthread writer_;
};

}  // namespace lockstep::strategy::horovod

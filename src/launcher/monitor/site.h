// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/contract/run_directory.h"

namespace lockstep::monitor {

using Parameters = std::map<std::string, std::string>;

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
};

// A run to show, and its display name.
struct ShownRun {
  contract::RunDirectory directory;
  std::string name;
};

// The responses of the dashboard, independent of sockets. Only reads files, never writes them.
//
// Its own thread polls the files of the runs. Thread-safe.
class Site {
 public:
  explicit Site(std::vector<ShownRun> runs,
                std::chrono::milliseconds pause = std::chrono::milliseconds(500));
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  // Answers a request for the page, one of its files, /api/... or /metrics. An error is an HTTP
  // status with one sentence as the body.
  Answer answer(const std::string& path, const Parameters& parameters);

  // Increases whenever a poll has found new data.
  uint64_t version() const { return version_; }

  // Waits until the version exceeds `seen`, for at most `patience`. Returns the version.
  uint64_t wait_for_news(uint64_t seen, std::chrono::milliseconds patience);

  // Reads new data from all files now.
  void poll();

 private:
  struct Followed;

  void follow(const std::stop_token& stop);
  Answer dispatch(const std::string& path, const Parameters& parameters);
  Answer runs();
  Answer snapshot(Followed& run);
  Answer log(const Followed& run, const Parameters& parameters) const;
  Answer metrics(const Parameters& parameters);
  Followed& run_of(const Parameters& parameters);

  std::vector<std::unique_ptr<Followed>> runs_;
  std::chrono::milliseconds pause_;
  std::atomic<uint64_t> version_ = 0;
  std::mutex mutex_;
  std::condition_variable_any news_;
  std::jthread follower_;
};

}  // namespace lockstep::monitor

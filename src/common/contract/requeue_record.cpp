// SPDX-License-Identifier: Apache-2.0
#include "common/contract/requeue_record.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

}  // namespace

std::string to_json(const RequeueRecord& record) {
  const Json json = {{"format", kFormat},
                     {"job", record.job},
                     {"requeues", record.requeues},
                     {"without_progress", record.without_progress},
                     {"step", record.step},
                     {"time", record.time},
                     {"requeued", record.is_again},
                     {"text", record.text}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RequeueRecord parse_requeue_record(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return {.job = json.at("job").get<std::string>(),
            .requeues = json.at("requeues").get<int>(),
            .without_progress = json.at("without_progress").get<int>(),
            .step = json.at("step").get<long long>(),
            .time = json.at("time").get<double>(),
            .is_again = json.at("requeued").get<bool>(),
            .text = json.at("text").get<std::string>()};
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the requeue record")
        .fact("reason", fault.what(), "requeue.json");
  }
}

RequeueRecord find_requeue_record(const RunDirectory& run, const std::string& job) {
  if (fs::exists(run.requeue())) {
    try {
      RequeueRecord record = parse_requeue_record(os::read_file(run.requeue()));
      if (record.job == job) {
        return record;
      }
    } catch (const Error& error) {
      log::warn("{}; starting a new count", error.sentence());
    }
  }
  RequeueRecord fresh;
  fresh.job = job;
  return fresh;
}

// Without fsync: the process writes it shortly before Slurm kills the job, and a lost count after a
// crash of the machine only allows one requeue more.
void write_requeue_record(const RunDirectory& run, const RequeueRecord& record) {
  os::make_directories(run.root());
  os::replace_file(run.requeue(), to_json(record));
}

// The marker COMPLETE is written last, so a directory without it can be a checkpoint in progress.
// This code does not use the checkpoint library, because the launcher does not link libtorch.
long long find_saved_step(const RunDirectory& run) {
  constexpr std::string_view kPrefix = "step-";
  long long newest = 0;
  std::error_code ignored;  // no such directory: no checkpoint yet
  for (const auto& entry : fs::directory_iterator(run.checkpoints(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && fs::exists(entry.path() / "COMPLETE", ignored)) {
      newest = std::max<long long>(newest, find_integer(name.substr(kPrefix.size())).value_or(0));
    }
  }
  return newest;
}

}  // namespace lockstep::contract

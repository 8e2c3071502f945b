// SPDX-License-Identifier: Apache-2.0
//
// failure.json has two groups of fields: facts, which the agent of the failed worker collects and
// sends to the leader (Failure), and texts, which the launcher derives from them ("how", "advice",
// "try"). "may_be_out_of_memory" is "out_of_memory" reduced to a flag.
#include "common/contract/failure_report.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "common/os/signals.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

constexpr std::array<std::pair<OutOfMemory, std::string_view>, 3> kWords = {
    std::pair(OutOfMemory::No, "no"),
    std::pair(OutOfMemory::Perhaps, "perhaps"),
    std::pair(OutOfMemory::Yes, "yes"),
};

Json write(OutOfMemory value) {
  return kWords.at(static_cast<size_t>(value)).second;
}

OutOfMemory read_memory(const Json& json) {
  const auto word = json.get<std::string>();
  for (const auto& [value, name] : kWords) {
    if (name == word) {
      return value;
    }
  }
  throw Error(ExitCode::Io, "cannot read the failure report: out_of_memory is '" + word + "'");
}

// Absent parts are null, not missing: every report has the same fields.
Json write(const std::optional<PythonFrame>& frame) {
  if (!frame) {
    return nullptr;
  }
  return {{"file", frame->file}, {"line", frame->line}, {"function", frame->function}};
}

std::optional<PythonFrame> read_frame(const Json& json) {
  if (json.is_null()) {
    return std::nullopt;
  }
  return PythonFrame{json.at("file").get<std::string>(),
                     json.at("line").get<int>(),
                     json.at("function").get<std::string>()};
}

Json write(const std::optional<PythonException>& exception) {
  if (!exception) {
    return nullptr;
  }
  return {{"text", exception->text},
          {"raised_at", write(exception->raised_at)},
          {"called_from", write(exception->called_from)}};
}

std::optional<PythonException> read_exception(const Json& json) {
  if (json.is_null()) {
    return std::nullopt;
  }
  return PythonException{json.at("text").get<std::string>(),
                         read_frame(json.at("raised_at")),
                         read_frame(json.at("called_from"))};
}

Json write(const std::vector<StoppedWorkers>& stopped) {
  Json list = Json::array();
  for (const StoppedWorkers& group : stopped) {
    list.push_back({{"node", group.node}, {"workers", group.count}});
  }
  return list;
}

// The file stores the shell's exit code, 128 + signal, and in addition the name of the signal. The
// number of the signal is recovered from the code.
Failure read_failure(const Json& json) {
  Failure failure;
  failure.who = json.at("who").get<std::string>();
  failure.rank = json.at("rank").get<int>();
  failure.local_rank = json.at("local_rank").get<int>();
  failure.node = json.at("node").get<std::string>();
  failure.pid = json.at("pid").get<int>();
  failure.attempt = json.at("attempt").get<int>();
  failure.max_restarts = json.at("max_restarts").get<int>();
  failure.seconds = json.at("seconds").get<double>();
  failure.cause = json.at("cause").get<std::string>();
  const int code = json.at("exit_code").get<int>();
  if (json.at("signal").is_null()) {
    failure.status.code = code;
  } else {
    failure.status.signal = code - 128;
  }
  failure.out_of_memory = read_memory(json.at("out_of_memory"));
  failure.exception = read_exception(json.at("exception"));
  for (const Json& group : json.at("stopped")) {
    failure.stopped.push_back(
        {group.at("node").get<std::string>(), group.at("workers").get<int>()});
  }
  failure.note = json.at("note").get<std::string>();
  failure.log = json.at("log").get<std::string>();
  failure.last_lines = json.at("last_lines").get<std::vector<std::string>>();
  return failure;
}

}  // namespace

std::string to_json(const FailureReport& report) {
  const Failure& failure = report.failure;
  Json json = {{"format", kFormat},
               {"who", failure.who},
               {"rank", failure.rank},
               {"local_rank", failure.local_rank},
               {"node", failure.node},
               {"pid", failure.pid},
               {"attempt", failure.attempt},
               {"max_restarts", failure.max_restarts},
               {"seconds", failure.seconds},
               {"how", report.how},
               {"cause", failure.cause},
               {"exit_code", failure.status.shell_code()},
               {"signal", nullptr},
               {"may_be_out_of_memory", failure.out_of_memory != OutOfMemory::No},
               {"out_of_memory", write(failure.out_of_memory)},
               {"exception", write(failure.exception)},
               {"stopped", write(failure.stopped)},
               {"note", failure.note},
               {"advice", report.advice},
               {"try", report.hint},
               {"log", failure.log.string()},
               {"last_lines", failure.last_lines}};
  if (failure.status.signal != 0) {
    json["signal"] = os::signal_name(failure.status.signal);
  }
  // The output of a worker need not be UTF-8. Invalid bytes become replacement characters.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The report also crosses the control plane between nodes, where versions can differ: hence the
// hint.
FailureReport parse_failure_report(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (const int format = json.at("format").get<int>(); format != kFormat) {
      throw Error(ExitCode::Io, "cannot read the failure report: it has another format")
          .fact("expected", std::to_string(kFormat))
          .fact("found", std::to_string(format))
          .hint("install the same version of lockstep on every node");
    }
    return {.failure = read_failure(json),
            .how = json.at("how").get<std::string>(),
            .advice = json.at("advice").get<std::string>(),
            .hint = json.at("try").get<std::string>()};
  } catch (const Json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the failure report: not written by lockstep")
        .fact("reason", fault.what());
  }
}

std::optional<FailureReport> find_failure_report(const RunDirectory& run) {
  std::error_code ignored;
  if (!std::filesystem::exists(run.failure(), ignored)) {
    return std::nullopt;
  }
  return parse_failure_report(os::read_file(run.failure()));
}

}  // namespace lockstep::contract

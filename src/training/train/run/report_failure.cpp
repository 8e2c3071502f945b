// SPDX-License-Identifier: Apache-2.0
#include "training/train/run/report_failure.h"

#include <chrono>
#include <fmt/format.h>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "lockstep/error.h"
#include "training/comm/error_report.h"
#include "training/train/session/stopped.h"

namespace lockstep::train {
namespace {

using comm::Ending;

// Time to find out whether the workers made different calls. A worker that waits in a call
// publishes its position every two seconds.
constexpr std::chrono::milliseconds kExplainTime(4500);

enum class Message { Whole, OneLine, None };

bool has_signal(const EndingWorker& worker) {
  return worker.stop != nullptr && worker.stop->find_signal().has_value();
}

Message choose_message(Ending ending, const EndingWorker& worker) {
  const contract::WorkerSpec& spec = worker.spec;
  const bool has_agent = !spec.error_file.empty();
  if (spec.world_size == 1) {
    return Message::Whole;
  }
  // The launcher has noticed the end of the peer and reports it; lockstep run always does.
  if (ending == Ending::LostPeer && (has_agent || has_signal(worker))) {
    return Message::None;
  }
  if (worker.watch == nullptr) {
    return has_agent && spec.rank != 0 ? Message::None : Message::Whole;
  }
  if (const auto is_elected = worker.watch->claim_report(ending)) {
    return *is_elected ? Message::Whole : Message::None;
  }
  // Rank 0 served the store and has ended. It has probably reported the failure, but may also have
  // been lost together with its node.
  return has_agent ? Message::None : Message::OneLine;
}

int report(const Error& error, Ending ending, const EndingWorker& worker) {
  {
    // The launcher stops this worker as soon as another one has exited. A signal must not end the
    // elected worker before it has printed.
    const StopRequest::Patience patience(worker.stop);
    switch (choose_message(ending, worker)) {
      case Message::Whole:
        comm::print_error(error.what());
        break;
      case Message::OneLine:
        comm::print_error(fmt::format("rank {}: {}", worker.spec.rank, error.sentence()));
        break;
      case Message::None:
        comm::keep_error(error, worker.spec);
        break;
    }
  }
  if (worker.watch != nullptr) {
    worker.watch->stay_for_claims();
  }
  return static_cast<int>(error.code());
}

// A worker that has received a signal is to end, and the launcher knows why, so that it asks the
// others only once.
int explain_and_report(const Error& error, const EndingWorker& worker) {
  if (worker.watch != nullptr) {
    const auto patience = has_signal(worker) ? std::chrono::milliseconds(0) : kExplainTime;
    if (const auto mistake = worker.watch->explain(patience)) {
      return report(*mistake, Ending::Mistake, worker);
    }
  }
  const bool is_lost_peer = error.code() == ExitCode::TryAgain;
  return report(error, is_lost_peer ? Ending::LostPeer : Ending::OwnFailure, worker);
}

}  // namespace

int report_failure(const std::exception_ptr& failure, const EndingWorker& worker) {
  try {
    std::rethrow_exception(failure);
  } catch (const Stopped& news) {
    if (worker.spec.rank == 0) {
      log::info("{}", news.sentence());
    }
    return static_cast<int>(news.code());
  } catch (const Error& error) {
    return explain_and_report(error, worker);
  } catch (const std::exception& fault) {
    const std::string text = fault.what();
    return explain_and_report(Error(ExitCode::Bug, "uncaught exception in the program")
                                  .fact("reason", text.substr(0, text.find('\n'))),
                              worker);
  }
}

}  // namespace lockstep::train

// SPDX-License-Identifier: Apache-2.0
#include "training/train/session/stop_request.h"

#include <array>
#include <csignal>

#include "common/os/process.h"

namespace lockstep::train {

// The members are initialized in this order: the signals are blocked before the thread starts,
// which inherits the mask, and the thread starts last, when all that it uses exists.
StopRequest::StopRequest()
    : signals_({SIGTERM, SIGINT}),
      older_threads_({SIGTERM, SIGINT}),
      end_(os::make_pipe()),
      thread_([this] { watch(); }) {}

// Closing the writing end wakes the thread, whose jthread is then joined. older_threads_ is
// restored before the mask is.
StopRequest::~StopRequest() {
  end_.in.close();
}

std::optional<int> StopRequest::find_signal() const {
  const int signal = signal_.load();
  return signal == 0 ? std::nullopt : std::optional(signal);
}

// The signal is stored before patience_ is read. A Patience that begins at the same moment either
// makes this thread record the signal only, or comes too late and the process ends, as without
// training.
void StopRequest::watch() {
  for (;;) {
    std::array<os::Watch, 2> watches = {os::Watch{.fd = signals_.fd()},
                                        os::Watch{.fd = end_.out.number()}};
    os::wait_for(watches, std::nullopt);
    if (watches[1].is_ready) {
      return;
    }
    const std::optional<int> signal = signals_.find_pending();
    if (!signal) {
      continue;
    }
    signal_ = *signal;
    if (patience_ == 0) {
      os::leave(os::ExitStatus{.signal = *signal}.shell_code());
    }
  }
}

StopRequest::Patience::Patience(StopRequest* request) : request_(request) {
  if (request_ != nullptr) {
    ++request_->patience_;
  }
}

StopRequest::Patience::~Patience() {
  if (request_ != nullptr) {
    --request_->patience_;
  }
}

}  // namespace lockstep::train

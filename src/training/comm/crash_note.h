// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>

#include "lockstep/error.h"

// Some versions of Gloo throw on a thread of their own if a message is longer than the receiver
// expects, which is the sign of mismatched calls. No caller can catch this exception. The handler
// of std::terminate is the last place that can report the reason.
namespace lockstep::comm {

// The Error for such an exception; nullopt for any other exception.
std::optional<Error> find_different_calls(const std::exception& fault);

// Finds out more than the exception contains, by asking the other workers.
class CrashReporter {
 public:
  virtual ~CrashReporter() = default;

  // Prints the reason and exits. Returns if the reason is unknown.
  virtual void report_and_exit() noexcept = 0;
};

// Installs the handler: a process that is terminated by mismatched calls prints the reason.
void install_crash_note();

// Installs the handler and registers `reporter`, which is asked first. Only one reporter can be
// registered; further ones are ignored.
void add_crash_reporter(CrashReporter& reporter);

// Must be called before `reporter` is destroyed. Does nothing if another reporter is registered.
void remove_crash_reporter(CrashReporter& reporter);

}  // namespace lockstep::comm

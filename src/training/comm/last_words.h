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
class Witness {
 public:
  virtual ~Witness() = default;

  // Prints the reason and exits. Returns if the reason is unknown.
  virtual void tell_and_end() noexcept = 0;
};

// Installs the handler: a process that is terminated by mismatched calls prints the reason.
void speak_at_the_end();

// Installs the handler and registers `witness`, which is asked first. Only one witness can be
// registered; further ones are ignored.
void add_witness(Witness& witness);

// Must be called before `witness` is destroyed. Does nothing if another witness is registered.
void remove_witness(Witness& witness);

}  // namespace lockstep::comm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>

#include "lockstep/error.h"

// Gloo notices that workers make different calls when a message is longer than the one that it
// waits for, and some versions of it throw on a thread of their own, where nobody can catch that.
// The handler of std::terminate is the last that can say why.
namespace lockstep::comm {

// The Error that such an exception stands for; nothing for any other.
std::optional<Error> find_different_calls(const std::exception& fault);

// Who can find out more than the exception tells, by asking the other workers.
class Witness {
 public:
  virtual ~Witness() = default;

  // Says why, and ends the process; returns if it knows nothing.
  virtual void tell_and_end() noexcept = 0;
};

// From now on this process says why when it is terminated by different calls.
void speak_at_the_end();

// The same, and asks `witness` first. There is one at a time: later ones are not asked.
void add_witness(Witness& witness);

// Before it goes; nothing happens if it is not the one.
void remove_witness(Witness& witness);

}  // namespace lockstep::comm

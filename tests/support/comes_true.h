// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::testing {

// Waits until the condition holds, at most 60 s: far more than any condition needs on a busy
// machine, because a test that waits for an event must not fail for being slow. Returns whether it
// became true.
template <typename Condition>
bool comes_true(const Condition& is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace lockstep::testing

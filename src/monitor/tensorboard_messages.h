// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// What TensorBoard's files are made of, each as the bytes of its message. A build without protobuf
// has none of it, and says so with an Error (69).
namespace lockstep::monitor {

bool has_tensorboard();

// When, in seconds since the epoch, and at which step.
struct Moment {
  double time = 0;
  int64_t step = 0;
};

// The first of every file.
std::string version_message(double time);

std::string scalar_message(std::string_view tag, const Moment& when, double value);

std::string text_message(std::string_view tag, const Moment& when, std::string_view text);

// Whatever was told of this step and of later ones counts no longer.
std::string restart_message(const Moment& when);

}  // namespace lockstep::monitor

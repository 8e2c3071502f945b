// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The messages of TensorBoard's event files, serialized. In a build without protobuf these
// functions throw an Error (69).
namespace lockstep::monitor {

bool has_tensorboard();

// A time in seconds since the epoch, and a step.
struct Moment {
  double time = 0;
  int64_t step = 0;
};

// The first message of every file.
std::string version_message(double time);

std::string scalar_message(std::string_view tag, const Moment& when, double value);

std::string text_message(std::string_view tag, const Moment& when, std::string_view text);

// Makes TensorBoard discard the values of this step and of later ones.
std::string restart_message(const Moment& when);

}  // namespace lockstep::monitor

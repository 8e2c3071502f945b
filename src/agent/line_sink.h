// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::agent {

enum class Stream { Out, Err };

// Takes what workers say. Never makes its caller wait.
class LineSink {
 public:
  LineSink() = default;
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;
  virtual ~LineSink() = default;

  // Whole lines of one worker, in their order.
  virtual void take_lines(int rank, Stream stream, std::string_view lines) = 0;

  // A progress bar's text for the moment, without its '\r'.
  virtual void take_status(int rank, std::string_view text) = 0;
};

}  // namespace lockstep::agent

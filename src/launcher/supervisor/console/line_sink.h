// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::supervisor {

enum class Stream { Out, Err };

// Receives the output of workers. Never blocks.
class LineSink {
 public:
  LineSink() = default;
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;
  virtual ~LineSink() = default;

  // Complete lines of one worker, in order.
  virtual void take_lines(int rank, Stream stream, std::string_view lines) = 0;

  // The current text of a progress bar, without its '\r'.
  virtual void take_status(int rank, std::string_view text) = 0;
};

}  // namespace lockstep::supervisor

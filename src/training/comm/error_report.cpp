// SPDX-License-Identifier: Apache-2.0
#include "training/comm/error_report.h"

#include <cstdio>
#include <fmt/format.h>

#include "common/contract/unprinted_error.h"

namespace lockstep::comm {

void print_error(std::string_view text) {
  // stdout is buffered if it is a pipe: without the flush, the last output of the program would
  // appear after the error, or not at all if the process ends with _Exit().
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: error: {}\n", text);
  std::fflush(stderr);
}

void keep_error(const Error& error, const contract::WorkerSpec& spec) {
  const bool has_agent = !spec.error_file.empty();
  if (has_agent && !contract::write_unprinted_error(spec, error.what())) {
    print_error(error.what());
  }
}

}  // namespace lockstep::comm

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/batch.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {

Batch Batch::to(torch::Device device, bool non_blocking) const {
  return {input.to(input.options().device(device), non_blocking),
          target.to(target.options().device(device), non_blocking)};
}

Batch Batch::slice(int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > size()) {
    throw Error(ExitCode::Usage,
                fmt::format("invalid range {} to {} in a batch of {} samples", begin, end, size()));
  }
  // Views: the slices share the memory of the batch.
  return {input.narrow(0, begin, end - begin), target.narrow(0, begin, end - begin)};
}

}  // namespace lockstep

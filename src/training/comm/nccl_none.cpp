// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"
#include "training/comm/nccl.h"

namespace lockstep::comm {

bool has_nccl() {
  return false;
}

std::unique_ptr<Communicator> join_nccl(std::unique_ptr<Communicator> host,
                                        torch::Device /*device*/,
                                        bool insist) {
  if (insist) {
    throw Error(ExitCode::Usage, "cannot use NCCL: this build of lockstep does not support it")
        .hint("build with a CUDA libtorch and nccl.h, or --transport auto");
  }
  return host;
}

}  // namespace lockstep::comm

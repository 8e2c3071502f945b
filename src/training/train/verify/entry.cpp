// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fmt/format.h>

#include "lockstep/verify.h"
#include "training/train/verify/verified.h"
#include "training/train/verify/verify.h"

namespace lockstep {

void verify_any(Session& session,
                torch::nn::Module& model,
                torch::optim::Optimizer& optimizer,
                const DatasetPtr& train,
                const LossFunction& loss,
                const TrainerOptions& options) {
  train::SessionParts& parts = SessionAccess::parts(session);
  const train::VerifyReport report = train::verify(
      parts,
      train::resolve(options, parts.flags, session.world_size()),
      {.model = model, .optimizer = optimizer, .train = train, .test = nullptr, .loss = loss});
  torch::Tensor agree = torch::ones({1}, torch::kInt64);
  if (session.rank() == 0) {
    agree[0] = train::agrees(report) ? 1 : 0;
    fmt::print("{}{}", parts.is_terminal_ours ? "\x1b[2K" : "", train::format_report(report));
    std::fflush(stdout);
  }
  // All workers wait until the table is printed: a launcher stops the others when one exits with 1.
  session.communicator().broadcast(agree);
  session.communicator().barrier();
  throw train::Verified(agree.item<int64_t>() == 1);
}

}  // namespace lockstep

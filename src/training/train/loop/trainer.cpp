// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/cluster/cores.h"
#include "common/os/limits.h"
#include "common/os/processors.h"
#include "lockstep/error.h"
#include "lockstep/verify.h"
#include "training/train/loop/evaluate.h"
#include "training/train/loop/loop.h"
#include "training/train/options/deepspeed_flags.h"
#include "training/train/options/flags.h"
#include "training/train/options/precision.h"
#include "training/train/session/session_parts.h"

namespace lockstep {

namespace {

// Logs the remarks about ds_config.json and the decisions for values that it leaves open.
void tell_of_file(const Session& session, const TrainerOptions& options) {
  const train::Flags& flags = SessionAccess::parts(session).flags;
  if (!flags.file) {
    return;
  }
  if (flags.file->zero.offload_param && session.device().is_cuda()) {
    throw Error(ExitCode::Usage,
                "cannot keep parameters in host memory: offload_param is not supported")
        .fact("requested", "zero_optimization.offload_param", flags.file->source)
        .hint("offload_optimizer alone");
  }
  if (session.rank() != 0) {
    return;
  }
  for (const std::string& remark : flags.file->remarks) {
    log::info("{}: {}", flags.file->source, remark);
  }
  const deepspeed::Resolved resolved = train::resolve_file(options, flags, session.world_size());
  for (const std::string& line : resolved.decisions) {
    log::info("{}", line);
  }
  if (flags.file->dump_state) {
    session.say(deepspeed::to_json(resolved.config));
  }
}

// Replicas share the cores of their process. Workers that are not bound to cores share those of the
// machine. One core of each share is reserved for the training thread.
int threads_by_cores(const train::SessionParts& session) {
  const bool is_bound = os::usable_processors() < os::machine_processors();
  const int sharers =
      std::max(session.replicas, is_bound ? 1 : session.placement.worker.local_world_size);
  return std::max(1, cluster::granted_cores() / sharers - 1);
}

}  // namespace

// options_ are resolved against flags and file once; `options` (unresolved) is passed to
// tell_of_file(), which repeats the resolution to describe its decisions.
Trainer::Trainer(Session& session, const TrainerOptions& options)
    : session_(session),
      options_(train::resolve(options, SessionAccess::parts(session).flags, session.world_size())) {
  if (options_.loader_threads < 0) {
    options_.loader_threads = threads_by_cores(SessionAccess::parts(session));
  }
  tell_of_file(session, options);
  if (const auto patience = SessionAccess::parts(session).flags.early_stop) {
    add(std::make_unique<EarlyStop>(static_cast<int>(*patience)));
  }
}

Trainer::~Trainer() = default;

void Trainer::add(std::unique_ptr<Callback> callback) {
  callbacks_.push_back(std::move(callback));
}

void Trainer::set_schedule(const Schedule& schedule) {
  schedule_ = schedule;
}

// Under --verify-strategies, verify_any() does not return: it ends the program with Verified.
TrainResult Trainer::fit_any(torch::nn::Module& model,
                             torch::optim::Optimizer& optimizer,
                             const DatasetPtr& train,
                             const DatasetPtr& test,
                             const LossFunction& loss) {
  if (session_.wants_verification()) {
    verify_any(session_, model, optimizer, train, loss, options_);
  }
  SessionAccess::parts(session_).has_fitted = true;
  train::Loop loop(SessionAccess::parts(session_),
                   options_,
                   {.model = model,
                    .optimizer = optimizer,
                    .train = train,
                    .test = options_.validate_every < 0 ? nullptr : test,
                    .loss = loss,
                    .schedule = schedule_},
                   callbacks_);
  return loop.run();
}

Evaluation Trainer::evaluate_any(torch::nn::Module& model,
                                 const DatasetPtr& test,
                                 const LossFunction& loss) {
  return train::evaluate(
      SessionAccess::parts(session_),
      nullptr,
      model,
      test,
      train::in_precision(loss,
                          options_.precision,
                          session_.device(),
                          train::precision_source(SessionAccess::parts(session_).flags)),
      {.batch = options_.evaluation_batch, .loader_threads = options_.loader_threads});
}

}  // namespace lockstep

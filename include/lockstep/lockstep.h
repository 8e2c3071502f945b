// SPDX-License-Identifier: Apache-2.0
#pragma once

// The complete public interface of the training library.
//
//   #include <lockstep/lockstep.h>
//
//   int main(int argc, char** argv) {
//     return lockstep::run(argc, argv, {.about = "Train a digit classifier"},
//                          [](lockstep::Session& session) {
//       const auto digits = lockstep::mnist(session.data_dir());
//       const auto net = lockstep::digit_net("cnn");
//       const auto sgd = session.make_optimizer(*net, {.name = "sgd", .lr = 0.01});
//       lockstep::Trainer trainer(session, {.epochs = 2});
//       trainer.fit(*net, *sgd, digits.train, digits.test, lockstep::CrossEntropy());
//     });
//   }
//
// Start it with `lockstep run --nproc-per-node 4 -- ./program -s ddp`. docs/training.md is the
// guide; the headers below are the reference.
#include <torch/torch.h>

#include "lockstep/batch.h"
#include "lockstep/callback.h"
#include "lockstep/checkpoint.h"
#include "lockstep/communicator.h"
#include "lockstep/compression.h"
#include "lockstep/dataset.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "lockstep/gpt2.h"
#include "lockstep/horovod_options.h"
#include "lockstep/loader.h"
#include "lockstep/metrics.h"
#include "lockstep/models.h"
#include "lockstep/optimizer.h"
#include "lockstep/recompute.h"
#include "lockstep/run.h"
#include "lockstep/sampler.h"
#include "lockstep/schedule.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/tokenizer.h"
#include "lockstep/trainer.h"
#include "lockstep/verify.h"
#include "lockstep/zero_options.h"

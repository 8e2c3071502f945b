// SPDX-License-Identifier: Apache-2.0
#include "training/train/session/own_loop.h"

#include <fmt/format.h>

#include "common/base/log.h"
#include "lockstep/error.h"
#include "training/train/options/option_table.h"
#include "training/train/options/precision.h"

namespace lockstep::train {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& source) {
  throw Error(ExitCode::Usage,
              fmt::format("cannot use {}: this program has a custom training loop", what))
      .fact("requested", what, source)
      .fact("supported by", "programs that train with lockstep::Trainer")
      .hint(fmt::format("omit {}", what));
}

// Only what changes the result of the training is an error; batch sizes, which every loop has,
// cause a warning at the end (warn_of_unused_flags).
void require_not_in_file(const deepspeed::Config& file) {
  const auto refuse_if = [&file](bool requested, const char* key) {
    if (requested) {
      refuse(key, file.source);
    }
  };
  refuse_if(file.gradient_clipping.value.value_or(0) > 0, "gradient_clipping");
  refuse_if(file.scheduler.has_value(), "scheduler");
  refuse_if(file.accumulation_steps.value.value_or(1) > 1, "gradient_accumulation_steps");
  refuse_if(file.fp16.value.value_or(false), "fp16");
}

}  // namespace

// --resume auto is rejected as well: a custom loop restores by itself.
void require_no_trainer_flags(const Flags& flags) {
  for (const Option& option : option_table()) {
    if (option.support.of_trainer && find_value(option, flags)) {
      refuse(option.name(), "command line");
    }
  }
  // Other precisions are Session::in_precision(); fp16 needs the loss scaling of the Trainer.
  if (flags.precision == "fp16" && precision_source(flags).empty()) {
    refuse("--precision fp16", "command line");
  }
  if (flags.file) {
    require_not_in_file(*flags.file);
  }
}

// Precision and recomputation cannot be enforced from outside the program; whether it asked for
// them is recorded in the session.
void warn_of_unused_flags(const SessionParts& session) {
  if (session.has_fitted || session.communicator->rank() != 0) {
    return;
  }
  const auto& file = session.flags.file;
  if (session.flags.recompute && !session.queried_recompute) {
    log::warn("{} had no effect: this program does not call Session::recompute()",
              file && file->recompute.value.value_or(false)
                  ? "activation_checkpointing in " + file->source
                  : "--recompute");
  }
  if (session.flags.precision.value_or("fp32") != "fp32" && !session.asked_precision) {
    const std::string source = precision_source(session.flags);
    log::warn("{} had no effect: this program does not call Session::in_precision()",
              source.empty() ? "--precision " + *session.flags.precision
                             : *session.flags.precision + " in " + source);
  }
  if (file && (file->train_batch_size.value || file->micro_batch_size.value)) {
    log::warn("the batch sizes in {} had no effect: this program sets its own", file->source);
  }
}

}  // namespace lockstep::train

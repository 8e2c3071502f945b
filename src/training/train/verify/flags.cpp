// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/error.h"
#include "training/strategy/properties.h"
#include "training/train/verify/verify.h"

namespace lockstep::train {

// The comparison requires that the strategies compute the same numbers up to rounding; options that
// round or change the training, and those that the verification varies itself, are rejected.
void require_exact_flags(const Flags& flags) {
  const auto refuse = [](bool given, const std::string& flag, const char* why) {
    if (given) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot use {} with --verify-strategies: {}", flag, why))
          .fact("requested", fmt::format("{} and --verify-strategies", flag), "command line")
          .hint(fmt::format("omit {}", flag));
    }
  };
  const std::string compression = flags.compression.value_or("none");
  const std::string precision = flags.precision.value_or("fp32");
  const std::string reduction = flags.reduction.value_or("average");
  refuse(strategy::has(flags.strategy, &strategy::Properties::is_for_one_worker),
         "-s " + flags.strategy.value_or(""),
         "it is the reference of the comparison");
  refuse(compression != "none", "--compression " + compression, "it rounds gradients");
  refuse(flags.fp16_allreduce, "--fp16-allreduce", "it rounds gradients");
  refuse(reduction != "average", "--reduction " + reduction, "it changes the training");
  refuse(flags.use_adasum, "--use-adasum", "it changes the training");
  refuse(precision != "fp32", "--precision " + precision, "the types are fixed");
  refuse(flags.loss_scale.has_value(), "--loss-scale", "the types are fixed");
  refuse(flags.ema.has_value(), "--ema", "only trained weights are compared");
  refuse(flags.clip_norm.has_value(), "--clip", "both with and without clipping are tested");
  refuse(flags.accumulate.has_value(),
         "--accumulate",
         "both with and without accumulation are tested");
  refuse(flags.replicas > 1, "--replicas", "each process must be one worker");
  refuse(flags.auto_shard != "data",
         "--auto-shard " + flags.auto_shard,
         "every strategy must see the same batches");
  refuse(flags.resume != "none", "--resume", "the initial weights of the program are used");
}

}  // namespace lockstep::train

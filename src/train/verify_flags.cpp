// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/error.h"
#include "train/verify.h"

namespace lockstep::train {

void require_exact_flags(const Flags& flags) {
  const auto refuse = [](bool given, const std::string& flag, const char* why) {
    if (given) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot take {} beside --verify-strategies: {}", flag, why))
          .fact("asked", fmt::format("{} and --verify-strategies", flag), "command line")
          .hint(fmt::format("the same without {}", flag));
    }
  };
  const HorovodFlags& horovod = flags.horovod;
  const std::string compression = flags.compression.value_or("none");
  const std::string precision = flags.precision.value_or("fp32");
  const std::string reduction = flags.horovod.reduction.value_or("average");
  refuse(flags.strategy == "single", "-s single", "that is what the others are compared with");
  refuse(compression != "none", "--compression " + compression, "it rounds gradients on their way");
  refuse(horovod.fp16_allreduce, "--fp16-allreduce", "it rounds gradients on their way");
  refuse(reduction != "average", "--reduction " + reduction, "it is another training by intent");
  refuse(horovod.use_adasum, "--use-adasum", "it is another training by intent");
  refuse(precision != "fp32", "--precision " + precision, "it compares in float64 and float32");
  refuse(flags.loss_scale.has_value(), "--loss-scale", "it compares in float64 and float32");
  refuse(flags.ema.has_value(), "--ema", "it compares the weights that are trained");
  refuse(flags.clip_norm.has_value(), "--clip", "it tries with and without clipping by itself");
  refuse(flags.accumulate.has_value(),
         "--accumulate",
         "it tries with and without accumulation by itself");
  refuse(flags.replicas > 1, "--replicas", "each process is one worker here");
  refuse(flags.auto_shard != "data",
         "--auto-shard " + flags.auto_shard,
         "every strategy must see the same batches");
  refuse(flags.resume != "none", "--resume", "it begins with the program's first weights");
}

}  // namespace lockstep::train

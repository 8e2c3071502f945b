// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

// How gradients are compressed while workers exchange them. Weights and optimizer state keep their
// type, so only the messages become smaller.
//
//   lockstep::Trainer trainer(session, {.strategy = {.compression = Compression::Bf16}});
//
// The command line overrides it (--compression). ddp, horovod and mirrored support it, PowerSgd
// only ddp; single exchanges nothing. make_strategy() throws an Error for other combinations.
//
//   None      gradients are sent in their own type
//   Fp16      converted to float16: half the bytes. Gradients are divided by the number of workers
//             first, so that a sum does not overflow if no gradient does
//   Bf16      converted to bfloat16: half the bytes and the range of float32, with fewer digits
//   PowerSgd  each matrix is sent as two thin matrices whose product approximates it (Vogels et
//             al., 2019). The remainder is added to the next gradient of the worker.
//             StrategyOptions has the rank of the two matrices and the number of steps before
//             compression starts
enum class Compression { None, Fp16, Bf16, PowerSgd };

// Returns the compression with the name "none", "fp16", "bf16" or "powersgd". Throws an Error that
// lists the names if `name` is another one. Any thread can call it.
Compression parse_compression(std::string_view name);

// Returns the name that parse_compression() accepts.
std::string_view name_of(Compression compression);

}  // namespace lockstep

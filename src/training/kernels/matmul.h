// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

enum class Epilogue {
  None,
  Bias,          // + bias [n]
  BiasGelu,      // gelu(product + bias); what goes into gelu is written to `aux`
  GeluBackward,  // product * gelu'(aux)
};

// output [m, n] = left [m, k] x right [k, n], then the epilogue; all row after row. A transposed
// operand lies in memory as its transpose: left as [k, m], right as [n, k]. Inputs are bfloat16,
// the output bfloat16 or float32; products are added up in float32. With `accumulate`, the product
// is added to what `output` holds (float32 output only, no epilogue).
struct MatmulCall {
  void* output = nullptr;
  bool float_output = false;
  bool accumulate = false;
  const Bf16* left = nullptr;
  const Bf16* right = nullptr;
  bool left_transposed = false;
  bool right_transposed = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Epilogue epilogue = Epilogue::None;
  const Bf16* bias = nullptr;
  Bf16* aux = nullptr;  // [m, n]
  const Bf16* addend =
      nullptr;  // [m, n], added to the product; epilogues None and Bias, not `output`
};

// Matrix products by cuBLASLt, on the device that was current when it was made. Tries the library's
// ways for a shape when it comes the second time (unless the stream is being captured) and keeps
// the fastest. One thread at a time may call it.
class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  void run(const MatmulCall& call, Stream stream);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::kernels

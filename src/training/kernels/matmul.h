// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "training/kernels/fp8.h"
#include "training/kernels/stream.h"

namespace lockstep::kernels {

enum class Epilogue {
  None,
  Bias,          // + bias [n]
  BiasGelu,      // gelu(product + bias); the input of gelu is written to `aux`
  GeluBackward,  // product * gelu'(aux)
};

enum class OperandType { Bf16, E4m3, E5m2 };

// output [m, n] = left [m, k] x right [k, n], then the epilogue; all row after row. A transposed
// operand is stored as its transpose: left as [k, m], right as [n, k]. Inputs are bfloat16 or fp8,
// the output bfloat16 or float32; products are added up in float32. With `accumulate`, the product
// is added to what `output` holds (float32 output only, no epilogue).
//
// fp8 operands must have the summed dimension last: right_transposed is set, left_transposed is
// not. n and k must be multiples of 16, and only one operand can be e5m2. The product is multiplied
// by left_inverse and right_inverse, floats on the GPU (null: 1). With `fast`, sums over k have
// fewer bits than float32, with an error of 1e-3 of the sum of the magnitudes. In a sum over a few
// thousand features this is small compared with the rounding of fp8 operands, but not in a sum over
// all tokens.
struct MatmulCall {
  void* output = nullptr;
  bool float_output = false;
  bool accumulate = false;
  const void* left = nullptr;
  const void* right = nullptr;
  OperandType left_type = OperandType::Bf16;
  OperandType right_type = OperandType::Bf16;
  const float* left_inverse = nullptr;
  const float* right_inverse = nullptr;
  bool fast = false;
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

// Matrix products with cuBLASLt on the device that is current at construction. When a shape is used
// again and the stream is not being captured, times the candidate algorithms of cuBLASLt and keeps
// the fastest. Not thread-safe.
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

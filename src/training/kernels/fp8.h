// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// An element of 8 bits; opaque outside the kernels.
struct Fp8;

// e4m3 has 3 bits of mantissa and reaches 448; e5m2 has 2 bits and reaches 57344.
enum class Fp8Type { E4m3, E5m2 };

// Delayed scaling with one scale per tensor. A kernel that writes fp8 multiplies by a scale that is
// computed from the maxima of earlier passes, and records the maximum of this pass. The tensor is
// therefore read once, and the host does not wait for the GPU.
//
// Scales are powers of two and do not change the mantissa. Two passes over the same values
// therefore give the same bits even if their recorded maxima differ slightly.
//
// cuBLASLt rejects a pointer to `inverse` that is not aligned to 16 bytes.
struct Fp8Scale {
  alignas(16) float scale = 1;    // fp8 = round(value * scale)
  alignas(16) float inverse = 1;  // value = fp8 * inverse
};

// The recorded magnitude of one tensor; exists for the whole training.
struct Fp8History {
  float amax = 0;   // max |value| recorded since the last refresh_scales()
  float peak = 0;   // decaying maximum of earlier passes
  float limit = 0;  // fp8_limit() of the type of the tensor
  float unused = 0;
};

// The maximum value to which a scale maps the peak: an eighth of the largest finite value. The next
// pass can have a larger maximum, and values outside the range saturate. In return, fewer of the
// small magnitudes are normal numbers; they contribute little to a product.
constexpr float fp8_limit(Fp8Type type) {
  return (type == Fp8Type::E4m3 ? 448.0F : 57344.0F) / 8;
}

// Sets scales[i] to the largest power of two that keeps the peak of history[i] within its limit. If
// `advances` is true, recorded maxima become part of the peak and recording restarts. If it is
// false (evaluation), the history does not change. Maxima that are not finite are dropped. A tensor
// without a recorded maximum has scale 1.
void refresh_scales(
    Fp8Scale* scales, Fp8History* history, int64_t count, bool advances, Stream stream);

// history->amax = max(history->amax, max |values|); count is a multiple of 8.
void record_amax(Fp8History* history, const Bf16* values, int64_t count, Stream stream);

// The operands of an fp8 product must have the summed dimension last (layout TN of cuBLASLt). Most
// tensors are therefore needed twice: without transpose, and transposed for the weight gradient,
// which sums over rows.
struct Fp8Output {
  Fp8* plain = nullptr;       // [rows, columns], unless null
  Fp8* transposed = nullptr;  // [columns, fp8_stride(rows)], zero beyond `rows`, unless null
  Fp8Type type = Fp8Type::E4m3;
  const Fp8Scale* scale = nullptr;
  Fp8History* history = nullptr;  // receives the maximum, unless null
};

// The row length of a transposed matrix, in bytes. cuBLASLt requires a multiple of 16.
constexpr int64_t fp8_stride(int64_t rows) {
  return (rows + 15) / 16 * 16;
}

// All matrices below are bfloat16 [rows, columns] in row-major order. `columns` is a multiple of 8
// (16 for a product). Column sums are float32, overwrite their destination and are deterministic.
// `workspace` has fp8_workspace(columns) bytes; it is not used without sums.
int64_t fp8_workspace(int64_t columns);

// output = input; sums [columns] = the sums of input over rows, unless null.
void cast_to_fp8(const Fp8Output& output,
                 float* sums,
                 const Bf16* input,
                 void* workspace,
                 int64_t rows,
                 int64_t columns,
                 Stream stream);

// output = gelu(product + bias), with the tanh approximation.
void gelu_to_fp8(const Fp8Output& output,
                 const Bf16* product,
                 const float* bias,
                 int64_t rows,
                 int64_t columns,
                 Stream stream);

// output = dy * gelu'(product + bias); bias_gradient [columns] = its sums over rows.
void gelu_backward_to_fp8(const Fp8Output& output,
                          float* bias_gradient,
                          const Bf16* dy,
                          const Bf16* product,
                          const float* bias,
                          void* workspace,
                          int64_t rows,
                          int64_t columns,
                          Stream stream);

// output [rows, 3 x columns] = first, second and third [rows, columns] next to each other; sums
// [3 x columns] = its sums over rows. `workspace` has fp8_workspace(3 x columns) bytes.
void join_to_fp8(const Fp8Output& output,
                 float* sums,
                 const Bf16* first,
                 const Bf16* second,
                 const Bf16* third,
                 void* workspace,
                 int64_t rows,
                 int64_t columns,
                 Stream stream);

// transposed [columns, fp8_stride(rows)] = the transpose of input [rows, columns], of either type.
void transpose_fp8(Fp8* transposed, const Fp8* input, int64_t rows, int64_t columns, Stream stream);

}  // namespace lockstep::kernels

// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace lockstep::kernels {

// cudaStream_t of CUDA, for code that does not include its headers.
using Stream = CUstream_st*;

// An element of 16 bits, a bfloat16; opaque outside the kernels.
struct Bf16;

}  // namespace lockstep::kernels

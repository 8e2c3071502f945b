// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/image/renderer.h"
#include "training/kernels/samples.h"

namespace lockstep::data {

// Describes planes and part of a sample for kernels::make_samples(). Pointers and pitches are left
// empty. The file must have a coding other than Other, and Yuv422 only at full size: there,
// rounding before and after the interpolation of chroma adds up to three levels.
kernels::SampleJob describe_job(const image::JpegDecoder::Header& header,
                                const image::RenderPlan& plan);

// The weights of an axis of a plan, as kernels::SampleAxis expects them in memory: first, count,
// weights. The size is a multiple of 8 bytes.
int64_t axis_bytes(const image::Axis& axis);

// Writes the weights to `host`. The result refers to a copy of them at the address `device`.
kernels::SampleAxis write_axis(const image::Axis& axis, uint8_t* host, const uint8_t* device);

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
//
// libjpeg reduces an image while it decodes: each block of 8 x 8 coefficients becomes 4 x 4, 2 x 2
// or 1 x 1 pixels, which are averages of the pixels of the full size (jidctred.c). Chroma that is
// stored with half as many columns and rows is reduced by one step less instead of being enlarged
// afterwards (jdmaster.c).
#include "training/data/sample_job.h"

#include <bit>
#include <cstring>

namespace lockstep::data {
namespace {

constexpr int64_t kAlignment = 8;

kernels::JpegPlane plane(int width, int height, int shift) {
  kernels::JpegPlane made;
  made.width = width;
  made.height = height;
  made.shift = shift;
  return made;
}

}  // namespace

kernels::SampleJob describe_job(const image::JpegDecoder::Header& header,
                                const image::RenderPlan& plan) {
  using image::Coding;
  const int shift = std::countr_zero(static_cast<unsigned>(image::JpegDecoder::kWhole)) -
                    std::countr_zero(static_cast<unsigned>(plan.eighths));
  const bool is_420 = header.coding == Coding::Yuv420;
  const bool has_half_columns = is_420 || header.coding == Coding::Yuv422;
  kernels::SampleJob job;
  job.planes[0] = plane(header.width, header.height, shift);
  job.has_colour = header.coding != Coding::Grey;
  if (job.has_colour) {
    const int width = has_half_columns ? (header.width + 1) / 2 : header.width;
    const int height = is_420 ? (header.height + 1) / 2 : header.height;
    const bool is_reduced_less = is_420 && shift > 0;
    job.planes[1] = job.planes[2] = plane(width, height, is_reduced_less ? shift - 1 : shift);
    job.halves_x = has_half_columns && !is_reduced_less;
    job.halves_y = is_420 && !is_reduced_less;
  }
  job.left = plan.columns.lowest();
  job.top = plan.rows.lowest();
  job.width = plan.columns.highest() - job.left;
  job.height = plan.rows.highest() - job.top;
  job.row_step = plan.row_step;
  job.column_step = plan.column_step;
  return job;
}

int64_t axis_bytes(const image::Axis& axis) {
  const int64_t bytes = axis.outputs() * (2 * static_cast<int64_t>(sizeof(int32_t)) +
                                          axis.taps() * static_cast<int64_t>(sizeof(int16_t)));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

kernels::SampleAxis write_axis(const image::Axis& axis, uint8_t* host, const uint8_t* device) {
  const auto outputs = static_cast<size_t>(axis.outputs());
  const size_t count_at = outputs * sizeof(int32_t);
  const size_t weights_at = 2 * count_at;
  for (int i = 0; i < axis.outputs(); ++i) {
    const int32_t first = axis.first(i);
    const int32_t count = axis.count(i);
    std::memcpy(host + static_cast<size_t>(i) * sizeof(first), &first, sizeof(first));
    std::memcpy(host + count_at + static_cast<size_t>(i) * sizeof(count), &count, sizeof(count));
  }
  std::memcpy(host + weights_at,
              axis.weights(0),
              outputs * static_cast<size_t>(axis.taps()) * sizeof(int16_t));
  kernels::SampleAxis made;
  made.first = reinterpret_cast<const int32_t*>(device);
  made.count = reinterpret_cast<const int32_t*>(device + count_at);
  made.weights = reinterpret_cast<const int16_t*>(device + weights_at);
  made.taps = axis.taps();
  return made;
}

}  // namespace lockstep::data

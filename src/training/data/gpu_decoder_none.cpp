// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA, or without the header of nvJPEG.
#include "lockstep/error.h"
#include "training/data/gpu_decoder.h"

namespace lockstep::data {

struct GpuDecoder::State {};

GpuDecoder::GpuDecoder(torch::Device /*device*/) {
  throw Error(ExitCode::Unavailable, "cannot decode JPEG files on a GPU: lockstep has no nvJPEG")
      .fact("reason", "nvjpeg.h was not found when lockstep was built")
      .hint("--jpeg cpu");
}

GpuDecoder::~GpuDecoder() = default;

bool GpuDecoder::accepts(const GpuJpeg& /*jpeg*/) {
  return false;
}

std::vector<int64_t> GpuDecoder::decode(std::span<const GpuJpeg> /*jpegs*/,
                                        const torch::Tensor& /*output*/) {
  return {};
}

bool GpuDecoder::is_hardware() const {
  return false;
}

c10::Stream GpuDecoder::stream() const {
  return c10::Stream(c10::Stream::DEFAULT, torch::kCPU);
}

}  // namespace lockstep::data

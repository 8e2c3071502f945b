// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>
#include <cstddef>
#include <memory>
#include <span>
#include <torch/types.h>
#include <vector>

#include "common/image/renderer.h"

namespace lockstep::data {

// A JPEG file and the sample to make of it.
struct GpuJpeg {
  std::span<const std::byte> file;
  image::JpegDecoder::Header header;
  image::RenderPlan plan;
  int64_t place = 0;  // row of the output
};

// Decodes JPEG files on a GPU with nvJPEG, on its hardware decoder if it has one, and makes samples
// of them there. nvJPEG is loaded at run time. Buffers are reused for the next files and stay below
// 64 MiB, without those of nvJPEG itself. Use a decoder from one thread.
class GpuDecoder {
 public:
  // Throws an Error (69) with the reason if there is no nvJPEG, or if it does not work.
  explicit GpuDecoder(torch::Device device);
  ~GpuDecoder();
  GpuDecoder(const GpuDecoder&) = delete;
  GpuDecoder& operator=(const GpuDecoder&) = delete;

  // Whether decode() takes such a file. The CPU decodes the others: progressive, CMYK, tiny or
  // huge.
  static bool accepts(const GpuJpeg& jpeg);

  // Writes samples to rows of `output`, uint8 [N, size, size, 3] on the GPU, and waits for the GPU.
  // Returns the places of the files that nvJPEG cannot decode.
  std::vector<int64_t> decode(std::span<const GpuJpeg> jpegs, const torch::Tensor& output);

  // Whether the GPU has a decoder of its own. Otherwise nvJPEG computes on the multiprocessors,
  // which training uses as well.
  bool is_hardware() const;

  // The stream of this decoder. `output` must be allocated on it.
  c10::Stream stream() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data

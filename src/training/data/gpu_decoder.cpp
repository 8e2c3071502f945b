// SPDX-License-Identifier: Apache-2.0
//
// One chunk of files at a time, so that buffers stay small:
//
//   nvjpegDecodeBatched()   files -> planes of Y, Cb and Cr as stored, full size
//   copy                    jobs and filter weights, from pinned memory
//   make_samples()          planes -> RGB -> crop, scaled and mirrored, in the output
//   event                   the thread waits
//
// nvJPEG is not asked for RGB: it would repeat chroma samples, where libjpeg interpolates, and
// pixels at coloured edges would differ by dozens of levels. The hardware decoder does not wait for
// earlier work of the stream before it writes, so a chunk begins only after the end of the last
// one.
#include "training/data/gpu_decoder.h"

#include <algorithm>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDAStream.h>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <string>
#include <torch/cuda.h>
#include <utility>

#include "lockstep/error.h"
#include "training/data/nvjpeg_calls.h"
#include "training/data/sample_job.h"
#include "training/kernels/launch.h"

namespace lockstep::data {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;
constexpr int64_t kPitch = 256;   // rows and planes begin at multiples of it
constexpr int kLeastPixels = 16;  // libjpeg does not interpolate chroma of tiny images

int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

int64_t plane_bytes(const kernels::JpegPlane& plane) {
  return round_up(plane.width, kPitch) * plane.height;
}

// The memory that a file needs on the GPU.
int64_t chunk_bytes(const kernels::SampleJob& job) {
  int64_t bytes = int64_t{job.width} * job.height * 4;
  for (const kernels::JpegPlane& plane : job.planes) {
    bytes += plane_bytes(plane);
  }
  return round_up(bytes, kPitch);
}

void require(nvjpegStatus_t status, const char* call) {
  if (status != NVJPEG_STATUS_SUCCESS) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot decode JPEG files on a GPU: {} failed", call))
        .fact("error", fmt::format("status {}", static_cast<int>(status)), "nvJPEG")
        .hint("--jpeg cpu");
  }
}

uint8_t* bytes_of(const torch::Tensor& tensor) {
  return tensor.data_ptr<uint8_t>();
}

// Replaces `tensor` by a larger one if it has fewer than `bytes`.
void grow(torch::Tensor& tensor, int64_t bytes, const torch::TensorOptions& options) {
  if (!tensor.defined() || tensor.numel() < bytes) {
    tensor.reset();  // before the allocation of the new one
    tensor = torch::empty({bytes}, options.dtype(torch::kUInt8));
  }
}

}  // namespace

struct GpuDecoder::State {
  explicit State(torch::Device on)
      : device(on),
        stream(c10::impl::VirtualGuardImpl(on.type()).getStreamFromGlobalPool(
            on, /*isHighPriority=*/false)),
        calls(NvjpegCalls::load()) {
    const c10::StreamGuard guard(stream);
    nvjpegStatus_t status =
        calls->create(NVJPEG_BACKEND_HARDWARE, nullptr, nullptr, NVJPEG_FLAGS_DEFAULT, &handle);
    is_hardware = status == NVJPEG_STATUS_SUCCESS;
    if (!is_hardware) {  // this GPU has no decoder
      handle = nullptr;
      status =
          calls->create(NVJPEG_BACKEND_GPU_HYBRID, nullptr, nullptr, NVJPEG_FLAGS_DEFAULT, &handle);
    }
    try {
      require(status, "nvjpegCreateEx");
      require(calls->create_state(handle, &state), "nvjpegJpegStateCreate");
      require(calls->create_stream(handle, &header), "nvjpegJpegStreamCreate");
      kernels::check_cuda(
          cudaEventCreateWithFlags(&done, cudaEventBlockingSync | cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    } catch (...) {
      release();
      throw;
    }
  }

  ~State() { release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void release() {
    if (done != nullptr) {
      cudaEventDestroy(done);
    }
    if (header != nullptr) {
      calls->destroy_stream(header);
    }
    if (state != nullptr) {
      calls->destroy_state(state);
    }
    if (handle != nullptr) {
      calls->destroy(handle);
    }
  }

  cudaStream_t raw_stream() const { return c10::cuda::CUDAStream(stream).stream(); }

  void add(const GpuJpeg& jpeg, uint8_t* output);
  bool is_supported(const GpuJpeg& jpeg);
  bool decode(size_t begin, size_t count);
  std::vector<bool> decode_all();
  void make(std::span<const GpuJpeg* const> jpegs, int size);
  void wait();

  torch::Device device;
  c10::Stream stream;
  std::shared_ptr<const NvjpegCalls> calls;
  nvjpegHandle_t handle = nullptr;
  nvjpegJpegState_t state = nullptr;
  nvjpegJpegStream_t header = nullptr;
  cudaEvent_t done = nullptr;
  bool is_hardware = false;
  int prepared_for = 0;  // batch size of the last nvjpegDecodeBatchedInitialize()

  torch::Tensor pixels;  // planes and RGB parts of a chunk
  int64_t used = 0;
  torch::Tensor table;  // jobs and weights, on the GPU
  torch::Tensor pinned_table;

  // The files of the chunk.
  std::vector<kernels::SampleJob> jobs;
  std::vector<const unsigned char*> files;
  std::vector<size_t> lengths;
  std::vector<nvjpegImage_t> images;
};

// Assigns memory of the chunk. Planes of one image follow each other, then its RGB part.
void GpuDecoder::State::add(const GpuJpeg& jpeg, uint8_t* output) {
  kernels::SampleJob job = describe_job(jpeg.header, jpeg.plan);
  uint8_t* next = bytes_of(pixels) + used;
  used += chunk_bytes(job);
  nvjpegImage_t image = {};
  for (int i = 0; i < (job.has_colour ? 3 : 1); ++i) {
    kernels::JpegPlane& plane = job.planes[i];
    plane.pixels = next;
    plane.pitch = static_cast<int>(round_up(plane.width, kPitch));
    image.channel[i] = next;
    image.pitch[i] = static_cast<size_t>(plane.pitch);
    next += plane_bytes(plane);
  }
  job.part = reinterpret_cast<uint32_t*>(next);
  job.output = output + jpeg.plan.start;
  jobs.push_back(job);
  images.push_back(image);
  files.push_back(reinterpret_cast<const unsigned char*>(jpeg.file.data()));
  lengths.push_back(jpeg.file.size());
}

// nvJPEG rejects a batch with one file that the hardware does not support.
bool GpuDecoder::State::is_supported(const GpuJpeg& jpeg) {
  if (!is_hardware) {
    return true;
  }
  int answer = -1;  // 0: supported
  return calls->parse_header(handle,
                             reinterpret_cast<const unsigned char*>(jpeg.file.data()),
                             jpeg.file.size(),
                             header) == NVJPEG_STATUS_SUCCESS &&
         calls->is_supported(handle, header, &answer) == NVJPEG_STATUS_SUCCESS && answer == 0;
}

bool GpuDecoder::State::decode(size_t begin, size_t count) {
  constexpr int kHostThreads = 1;
  if (prepared_for != static_cast<int>(count)) {
    prepared_for = 0;
    if (calls->initialize(
            handle, state, static_cast<int>(count), kHostThreads, NVJPEG_OUTPUT_UNCHANGED) !=
        NVJPEG_STATUS_SUCCESS) {
      return false;
    }
    prepared_for = static_cast<int>(count);
  }
  if (calls->decode(handle,
                    state,
                    files.data() + begin,
                    lengths.data() + begin,
                    images.data() + begin,
                    raw_stream()) == NVJPEG_STATUS_SUCCESS) {
    return true;
  }
  prepared_for = 0;  // a failed batch must be initialized again
  return false;
}

// Which files were decoded. A failure of the batch does not name the file, so each is then tried
// alone.
std::vector<bool> GpuDecoder::State::decode_all() {
  if (decode(0, files.size())) {
    return std::vector<bool>(files.size(), true);
  }
  std::vector<bool> is_decoded;
  for (size_t i = 0; i < files.size(); ++i) {
    is_decoded.push_back(decode(i, 1));
    wait();
  }
  return is_decoded;
}

void GpuDecoder::State::make(std::span<const GpuJpeg* const> jpegs, int size) {
  const auto count = static_cast<int64_t>(jobs.size());
  int64_t bytes = count * static_cast<int64_t>(sizeof(kernels::SampleJob));
  for (const GpuJpeg* jpeg : jpegs) {
    bytes += axis_bytes(jpeg->plan.columns) + axis_bytes(jpeg->plan.rows);
  }
  grow(table, bytes, torch::device(device));
  grow(pinned_table, bytes, torch::TensorOptions().pinned_memory(true));
  uint8_t* const host = bytes_of(pinned_table);
  const uint8_t* const there = bytes_of(table);
  int64_t at = count * static_cast<int64_t>(sizeof(kernels::SampleJob));
  kernels::MakeSamples call;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const image::RenderPlan& plan = jpegs[i]->plan;
    jobs[i].columns = write_axis(plan.columns, host + at, there + at);
    at += axis_bytes(plan.columns);
    jobs[i].rows = write_axis(plan.rows, host + at, there + at);
    at += axis_bytes(plan.rows);
    call.most_width = std::max(call.most_width, jobs[i].width);
    call.most_pixels = std::max(call.most_pixels, int64_t{jobs[i].width} * jobs[i].height);
  }
  std::memcpy(host, jobs.data(), jobs.size() * sizeof(kernels::SampleJob));
  table.narrow(0, 0, bytes).copy_(pinned_table.narrow(0, 0, bytes), /*non_blocking=*/true);
  call.jobs = reinterpret_cast<const kernels::SampleJob*>(there);
  call.count = static_cast<int>(count);
  call.size = size;
  kernels::make_samples(call, raw_stream());
}

// Sleeps instead of polling: there can be a decoder per core.
void GpuDecoder::State::wait() {
  kernels::check_cuda(cudaEventRecord(done, raw_stream()), "cudaEventRecord");
  kernels::check_cuda(cudaEventSynchronize(done), "cudaEventSynchronize");
}

GpuDecoder::GpuDecoder(torch::Device device) {
  if (!torch::cuda::is_available()) {
    throw Error(ExitCode::Unavailable, "cannot decode JPEG files on a GPU: libtorch finds no GPU")
        .hint("--jpeg cpu");
  }
  state_ = std::make_unique<State>(device);
}

GpuDecoder::~GpuDecoder() = default;

bool GpuDecoder::is_hardware() const {
  return state_->is_hardware;
}

c10::Stream GpuDecoder::stream() const {
  return state_->stream;
}

bool GpuDecoder::accepts(const GpuJpeg& jpeg) {
  const image::Coding coding = jpeg.header.coding;
  const bool is_reduced = jpeg.plan.eighths < image::JpegDecoder::kWhole;
  if (coding == image::Coding::Other || (coding == image::Coding::Yuv422 && is_reduced) ||
      jpeg.header.width < kLeastPixels || jpeg.header.height < kLeastPixels) {
    return false;
  }
  const kernels::SampleJob job = describe_job(jpeg.header, jpeg.plan);
  return job.width <= kernels::kMostSampleColumns && chunk_bytes(job) <= kChunkBytes;
}

std::vector<int64_t> GpuDecoder::decode(std::span<const GpuJpeg> jpegs,
                                        const torch::Tensor& output) {
  State& state = *state_;
  const c10::StreamGuard guard(state.stream);
  grow(state.pixels, kChunkBytes, torch::device(state.device));
  state.wait();
  const int64_t sample_bytes = output.stride(0);
  std::vector<int64_t> failed;
  for (size_t next = 0; next < jpegs.size();) {
    state.jobs.clear();
    state.images.clear();
    state.files.clear();
    state.lengths.clear();
    state.used = 0;
    std::vector<const GpuJpeg*> chunk;
    for (; next < jpegs.size(); ++next) {
      const GpuJpeg& jpeg = jpegs[next];
      if (state.used + chunk_bytes(describe_job(jpeg.header, jpeg.plan)) > kChunkBytes) {
        break;
      }
      if (!state.is_supported(jpeg)) {
        failed.push_back(jpeg.place);
        continue;
      }
      state.add(jpeg, bytes_of(output) + jpeg.place * sample_bytes);
      chunk.push_back(&jpeg);
    }
    if (chunk.empty()) {
      continue;
    }
    // Samples of files that failed are computed from old pixels and overwritten by the caller.
    const std::vector<bool> is_decoded = state.decode_all();
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (!is_decoded[i]) {
        failed.push_back(chunk[i]->place);
      }
    }
    state.make(chunk, static_cast<int>(output.size(1)));
    state.wait();
  }
  return failed;
}

}  // namespace lockstep::data

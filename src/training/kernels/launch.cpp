// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/launch.h"

#include <array>
#include <atomic>
#include <string>

#include "lockstep/error.h"

namespace lockstep::kernels {
namespace {

// Errors of the machine or its configuration, not of this program.
bool is_lack(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNoKernelImageForDevice:
      return true;
    default:
      return false;
  }
}

constexpr int kMaxDevices = 64;

// A query takes longer than a kernel launch, and the attributes of a device never change, so they
// are cached for the lifetime of the process. Threads that query at the same time store the same
// value, which is why relaxed order is enough.
template <cudaDeviceAttr which>
int attribute() {
  static std::array<std::atomic<int>, kMaxDevices> known{};  // 0: not queried yet
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require(device < kMaxDevices, "fewer than 64 devices");
  std::atomic<int>& answer = known[static_cast<size_t>(device)];
  if (const int value = answer.load(std::memory_order_relaxed); value != 0) {
    return value;
  }
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  answer.store(value, std::memory_order_relaxed);
  return value;
}

}  // namespace

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) {
    return;
  }
  throw Error(is_lack(status) ? ExitCode::Unavailable : ExitCode::Bug,
              std::string("cannot continue: ") + call + " failed")
      .fact("error", cudaGetErrorName(status), "CUDA")
      .fact("text", cudaGetErrorString(status), "CUDA");
}

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
}

void require(bool is_met, const char* what) {
  if (!is_met) {
    throw Error(ExitCode::Bug, "kernel precondition violated").fact("required", what, "kernels");
  }
}

int multiprocessors() {
  return attribute<cudaDevAttrMultiProcessorCount>();
}

int shared_bytes_per_block() {
  return attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>();
}

bool has_bulk_copies() {
  return attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
}

}  // namespace lockstep::kernels

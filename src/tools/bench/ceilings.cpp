// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/ceilings.h"

#include <torch/utils.h>

#include "common/base/median.h"
#include "tools/bench/report.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

constexpr int kBlocks = 3;

// Seconds per call; the median of several blocks. Two calls first: libraries select their algorithm
// and allocate workspace in the first one. The time of a block includes one synchronization, not
// one per call.
double seconds_per_call(torch::Device device, int calls, const std::function<void()>& call) {
  call();
  call();
  std::vector<double> blocks;
  for (int block = 0; block < kBlocks; ++block) {
    blocks.push_back(seconds_of(device,
                                [&] {
                                  for (int i = 0; i < calls; ++i) {
                                    call();
                                  }
                                }) /
                     calls);
  }
  return median(blocks);
}

}  // namespace

// A product of two n x n matrices takes 2 n^3 operations. 8192 is large enough to reach the peak
// rate of current GPUs. A copy reads and writes every byte, hence the factor 2. 1 GiB exceeds the
// caches of a GPU.
Ceilings measure_ceilings(torch::Device device, torch::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const bool is_gpu = device.is_cuda();
  const int64_t side = is_gpu ? 8192 : 512;
  // 16-bit products can take minutes on a CPU without instructions for them.
  const auto options = torch::device(device).dtype(is_gpu ? type : torch::kFloat32);
  Ceilings found{.matrix_side = side};
  {
    const torch::Tensor one = torch::randn({side, side}, options);
    const torch::Tensor other = torch::randn({side, side}, options);
    torch::Tensor product = torch::empty({side, side}, options);
    const double seconds =
        seconds_per_call(device, is_gpu ? 20 : 3, [&] { torch::mm_out(product, one, other); });
    const auto edge = static_cast<double>(side);
    found.matrix_rate = 2 * edge * edge * edge / seconds;
  }
  const int64_t count = is_gpu ? int64_t{256} << 20 : int64_t{16} << 20;
  const torch::Tensor from = torch::rand({count}, torch::device(device));
  torch::Tensor to = torch::empty_like(from);
  const double seconds = seconds_per_call(device, is_gpu ? 20 : 3, [&] { to.copy_(from); });
  found.copy_bandwidth = 2 * static_cast<double>(from.nbytes()) / seconds;
  return found;
}

}  // namespace lockstep::bench

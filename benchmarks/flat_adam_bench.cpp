// SPDX-License-Identifier: Apache-2.0

// Measures one step of AdamW over a flat buffer: optim::flat_adam in one pass, AdamW of libtorch,
// and a copy of the same number of bytes, which is the limit of the memory.
//
//   OMP_NUM_THREADS=1 build/bench/flat_adam_bench
//
// bytes_per_second counts the bytes that a step must read (four floats) and write (three floats).

#include <benchmark/benchmark.h>
#include <cstring>
#include <torch/torch.h>
#include <vector>

#include "lockstep/optimizer.h"
#include "training/optim/flat_adam.h"

namespace lockstep {
namespace {

constexpr int64_t kBytesPerElement = 7 * sizeof(float);

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * kBytesPerElement);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void step_flat(benchmark::State& state) {
  const int64_t n = state.range(0);
  torch::Tensor parameter = torch::randn({n});
  const torch::Tensor gradient = torch::randn({n});
  torch::Tensor m = torch::zeros({n});
  torch::Tensor v = torch::zeros({n});
  int64_t step = 0;
  for (auto _ : state) {
    optim::flat_adam(optim::FlatAdamBuffers<float>{.parameter = parameter.data_ptr<float>(),
                                                   .gradient = gradient.data_ptr<float>(),
                                                   .exp_avg = m.data_ptr<float>(),
                                                   .exp_avg_sq = v.data_ptr<float>(),
                                                   .count = n},
                     ++step,
                     {.weight_decay = 0.01});
  }
  count(state);
}

void step_torch(benchmark::State& state) {
  torch::Tensor parameter = torch::randn({state.range(0)}).requires_grad_();
  parameter.mutable_grad() = torch::randn({state.range(0)});
  const auto optimizer = make_optimizer({parameter}, {.name = "adamw", .weight_decay = 0.01});
  for (auto _ : state) {
    optimizer->step();
  }
  count(state);
}

// memcpy of half of the bytes, so that the total of bytes read and written is the same.
void copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0) * kBytesPerElement / 2);
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  count(state);
}

BENCHMARK(step_flat)->Arg(1 << 16)->Arg(10'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(step_torch)->Arg(1 << 16)->Arg(10'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(copy)->Arg(1 << 16)->Arg(10'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep

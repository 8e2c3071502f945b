// SPDX-License-Identifier: Apache-2.0

// Compares the Loader of lockstep with the DataLoader of torch::data (MNIST, Normalize, Stack).
//
//   LOCKSTEP_DATA_DIR=data build/bench/loader_bench
//
// Without the MNIST files, only the generated digits are measured.

#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "common/os/environment.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "lockstep/loader.h"
#include "lockstep/sampler.h"

namespace lockstep {
namespace {

constexpr int64_t kBatch = 64;

std::filesystem::path data_dir() {
  return os::find_variable(os::environment(), "LOCKSTEP_DATA_DIR").value_or("data");
}

DistributedSampler one_worker(int64_t dataset_size) {
  return DistributedSampler({.dataset_size = dataset_size,
                             .global_batch = kBatch,
                             .rank = 0,
                             .world_size = 1,
                             .tail = Tail::Drop,
                             .seed = 1});
}

// Runs through epochs repeatedly, like a training loop.
void time_loader(benchmark::State& state, const DatasetPtr& dataset) {
  DistributedSampler sampler = one_worker(dataset->size());
  const LoaderOptions options = {.threads = static_cast<int>(state.range(0))};
  auto loader = std::make_unique<Loader>(dataset, sampler, options);
  for (auto _ : state) {
    std::optional<Batch> batch = loader->next();
    if (!batch) {
      state.PauseTiming();
      sampler.set_epoch(sampler.epoch() + 1);
      loader = std::make_unique<Loader>(dataset, sampler, options);
      state.ResumeTiming();
      batch = loader->next();
    }
    benchmark::DoNotOptimize(batch->input.data_ptr());
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void generated(benchmark::State& state) {
  time_loader(state, generated_digits(60000, 1, 1).train);
}
BENCHMARK(generated)->ArgName("threads")->Arg(0)->Arg(1)->UseRealTime();

void drawing(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(generated_digits(state.range(0), 1, 1));
  }
}
BENCHMARK(drawing)->ArgName("digits")->Arg(10000)->Unit(benchmark::kMillisecond);

void lockstep_mnist(benchmark::State& state) {
  try {
    time_loader(state, mnist(data_dir()).train);
  } catch (const Error& error) {
    state.SkipWithError(error.sentence().c_str());
  }
}
BENCHMARK(lockstep_mnist)->ArgName("threads")->Arg(0)->Arg(1)->UseRealTime();

// The cost of next() alone: the batch is ready, and no thread must be woken.
void ready_batch(benchmark::State& state) {
  constexpr int kReady = 8192;
  const DatasetPtr dataset = tensors(torch::zeros({1, 1}), torch::zeros({1}));
  std::atomic<int64_t> asked = 0;
  Loader loader(dataset,
                2 * kReady,
                [&](int64_t) {
                  ++asked;
                  return std::vector<int64_t>{0};
                },
                {.prefetch = kReady});
  while (asked < kReady) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(loader.next());
  }
}
BENCHMARK(ready_batch)->Iterations(4000)->UseRealTime();

void torch_data_mnist(benchmark::State& state) {
  std::filesystem::path where;
  for (const auto& candidate : {data_dir() / "mnist", data_dir(), data_dir() / "MNIST" / "raw"}) {
    if (std::filesystem::exists(candidate / "train-images-idx3-ubyte")) {
      where = candidate;
      break;
    }
  }
  if (where.empty()) {
    state.SkipWithError("no uncompressed MNIST files found");
    return;
  }
  auto dataset = torch::data::datasets::MNIST(where.string())
                     .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
                     .map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      std::move(dataset),
      torch::data::DataLoaderOptions().batch_size(kBatch).drop_last(true).workers(
          static_cast<size_t>(state.range(0))));
  auto batch = loader->begin();
  for (auto _ : state) {
    benchmark::DoNotOptimize(batch->data.data_ptr());
    if (++batch == loader->end()) {
      state.PauseTiming();
      batch = loader->begin();
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(torch_data_mnist)->ArgName("workers")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace lockstep

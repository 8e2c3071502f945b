// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/dataset.h"
#include "lockstep/sampler.h"

// Prepares batches on threads of its own while the model computes.
//
//   lockstep::Loader loader(train, sampler, {.threads = 4});
//   while (const auto batch = loader.next()) {
//     ...
//   }
namespace lockstep {

// How a Loader prepares batches.
struct LoaderOptions {
  // ---- behaviour

  // The first step to load. A value above 0 resumes in the middle of an epoch.
  int64_t first_step = 0;

  // ---- performance; these options never change the content or the order of batches

  // Number of threads that prepare batches. 0 prepares each batch inside next(). -1 uses one
  // thread fewer than the cores available to this process, but at least one.
  int threads = 1;

  // Maximum number of batches that are prepared in advance; 0: two more than threads, at least 4.
  int prefetch = 0;

  // Places batches in pinned memory, from which a GPU copies asynchronously. The memory belongs to
  // the GPU that is current on the thread that creates the Loader. Throws an Error without a GPU.
  bool pin_memory = false;
};

// Returns the samples of a step. Called concurrently on the threads of the Loader.
using IndexSource = std::function<std::vector<int64_t>(int64_t step)>;

// Prepares the batches of one pass over a data set in advance.
//
// Batches arrive in the order of the steps. Their content does not depend on the number of
// threads. Call next() from one thread. The Loader shares ownership of the data set. Its
// destructor waits for batches in preparation and does not start further ones.
class Loader {
 public:
  // Loads the steps [first_step, steps). Throws an Error if an option is out of range.
  Loader(DatasetPtr dataset, int64_t steps, IndexSource indices, LoaderOptions options = {});

  // Load the rest of the current epoch of `sampler`. The Loader keeps a copy of the sampler, so
  // that the caller can advance the original to the next epoch. The samples are those of the
  // epoch of the sampler (Dataset::in_epoch).
  Loader(DatasetPtr dataset, const DistributedSampler& sampler, LoaderOptions options = {});
  Loader(DatasetPtr dataset, const EvaluationSampler& sampler, LoaderOptions options = {});

  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // Returns the next batch, or nothing after the last one. Blocks until the batch is ready.
  // Rethrows an exception that occurred while the batch was prepared. All further calls then throw
  // the same exception.
  std::optional<Batch> next();

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace lockstep

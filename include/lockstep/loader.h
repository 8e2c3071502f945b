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

namespace lockstep {

struct LoaderOptions {
  // Begins here instead of at step 0: resumes in the middle of an epoch.
  int64_t first_step = 0;

  // Threads that make batches ahead of time; 0 makes each batch inside next(), -1 takes one for
  // each core that this process may use but one, and at least one.
  int threads = 1;

  // Batches made ahead, at most; 0: two more than threads, at least 4.
  int prefetch = 0;

  // Puts batches into pinned memory, from where a GPU can fetch them by itself. It is that of the
  // GPU which is current on the thread that makes the Loader.
  bool pin_memory = false;
};

// The samples of a step; called on the loader's threads, several at once if there are several.
using IndexSource = std::function<std::vector<int64_t>(int64_t step)>;

// The batches of one pass over a data set, made ahead of time on threads of its own.
//
// They come in the order of the steps and with the same content, whatever the number of threads.
// One thread calls next(). The destructor waits for the batches being made, not for those to come.
class Loader {
 public:
  // Steps first_step up to, not including, `steps`. Throws an Error for options that make no sense.
  Loader(DatasetPtr dataset, int64_t steps, IndexSource indices, LoaderOptions options = {});

  // The rest of an epoch, of which it keeps a copy: the sampler may go on to the next one. Samples
  // are those of that epoch (Dataset::in_epoch).
  Loader(DatasetPtr dataset, const DistributedSampler& sampler, LoaderOptions options = {});
  Loader(DatasetPtr dataset, const EvaluationSampler& sampler, LoaderOptions options = {});

  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch, or nothing after the last. Rethrows what was thrown while that batch was made;
  // such a Loader gives no more batches, only the same exception again.
  std::optional<Batch> next();

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace lockstep

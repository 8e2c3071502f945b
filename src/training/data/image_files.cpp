// SPDX-License-Identifier: Apache-2.0
#include "training/data/image_files.h"

#include <atomic>
#include <c10/core/StreamGuard.h>
#include <condition_variable>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "lockstep/error.h"
#include "training/data/check_index.h"
#include "training/data/gpu_decoder.h"
#include "training/data/pinned_source.h"

namespace lockstep::data {
namespace {

// The decoder and buffers of one thread.
struct Workspace {
  explicit Workspace(const image::Recipe& recipe) : maker(recipe) {}

  image::Maker maker;
  std::vector<std::byte> file;
  std::vector<std::vector<std::byte>> gpu_files;
  std::vector<GpuJpeg> gpu_jpegs;
};

// Objects that threads borrow. Created when needed, at most `limit` of them; then take() waits.
// Thread-safe.
template <typename T>
class Pool {
 public:
  Pool(std::function<std::unique_ptr<T>()> create, int limit)
      : create_(std::move(create)), unused_(limit) {}

  // Borrows an object; the destructor returns it.
  class Lease {
   public:
    explicit Lease(Pool& owner) : owner_(owner), mine_(owner.take()) {}
    ~Lease() { owner_.give_back(std::move(mine_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    T& operator*() const { return *mine_; }
    T* operator->() const { return mine_.get(); }

   private:
    Pool& owner_;
    std::unique_ptr<T> mine_;
  };

 private:
  // An object is created without the lock, because a decoder takes milliseconds.
  std::unique_ptr<T> take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return !idle_.empty() || unused_ > 0; });
    if (!idle_.empty()) {
      std::unique_ptr<T> one = std::move(idle_.back());
      idle_.pop_back();
      return one;
    }
    --unused_;
    lock.unlock();
    try {
      return create_();
    } catch (...) {
      lock.lock();
      ++unused_;
      returned_.notify_one();
      throw;
    }
  }

  void give_back(std::unique_ptr<T> one) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(one));
    returned_.notify_one();
  }

  const std::function<std::unique_ptr<T>()> create_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int unused_;  // objects that may still be created
  std::vector<std::unique_ptr<T>> idle_;
};

// The samples that could not be decoded. Thread-safe.
class DamagedSamples {
 public:
  bool has(int64_t index) {
    const std::lock_guard lock(mutex_);
    return known_.contains(index);
  }

  // Adds a sample; logs a warning the first time.
  void add(int64_t index, const std::string& name, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (known_.insert(index).second) {
      log::warn("skipped {}: it {} ({} skipped so far)", name, reason, known_.size());
    }
  }

 private:
  std::mutex mutex_;
  std::set<int64_t> known_;
};

// The samples that only the CPU can decode. Thread-safe.
class CpuSamples {
 public:
  bool has(int64_t index) {
    const std::lock_guard lock(mutex_);
    return known_.contains(index);
  }
  void add(int64_t index) {
    const std::lock_guard lock(mutex_);
    known_.insert(index);
  }

 private:
  std::mutex mutex_;
  std::set<int64_t> known_;
};

// The state that the views of a data set for different epochs share.
struct Source {
  // On an H200, two decoders are as fast as the GPU decodes, and more are slower: each has 14
  // streams, and CUDA has 32 queues for them.
  static constexpr int kMaxGpuDecoders = 2;

  Source(image::StorePtr from, const ImageFilesOptions& with)
      : store(std::move(from)),
        options(with),
        workspaces([this] { return std::make_unique<Workspace>(options.recipe); },
                   std::numeric_limits<int>::max()),
        gpu_decoders([this] { return std::make_unique<GpuDecoder>(options.gpu.value()); },
                     kMaxGpuDecoders) {}

  const image::StorePtr store;
  const ImageFilesOptions options;
  Pool<Workspace> workspaces;
  Pool<GpuDecoder> gpu_decoders;
  DamagedSamples damaged;
  CpuSamples only_cpu;
  std::atomic<int64_t> gpu_count = 0;
  std::atomic<int64_t> cpu_count = 0;
};

class ImageFiles : public Dataset, public PinnedSource {
 public:
  ImageFiles(std::shared_ptr<Source> source, int64_t epoch)
      : source_(std::move(source)), epoch_(epoch) {}

  int64_t size() const override { return source_->store->size(); }
  std::vector<int64_t> files() const override { return source_->store->files(); }

  DatasetPtr in_epoch(int64_t epoch) const override {
    return source_->options.recipe.augments ? std::make_shared<ImageFiles>(source_, epoch)
                                            : nullptr;
  }

  Example example(int64_t index) const override {
    const Batch one = batch(std::span(&index, 1));
    if (one.size() == 0) {
      throw Error(
          ExitCode::Io,
          fmt::format("cannot read {}: it is not a valid image", source_->store->name(index)))
          .fact("sample", std::to_string(index))
          .hint("use map_batches() instead of map(): batches omit such samples");
    }
    return {one.input[0], one.target[0]};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    return make_batch(indices, /*pins=*/false);
  }

  Batch pinned_batch(std::span<const int64_t> indices) const override {
    return source_->options.gpu && !indices.empty() ? make_gpu_batch(indices)
                                                    : make_batch(indices, /*pins=*/true);
  }

  DecodeCounts counts() const { return {.gpu = source_->gpu_count, .cpu = source_->cpu_count}; }

 private:
  Batch make_batch(std::span<const int64_t> indices, bool pins) const {
    if (indices.empty()) {
      return {};
    }
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t side = source_->options.recipe.size;
    const torch::Tensor pixels =
        torch::empty({count, side, side, 3}, torch::dtype(torch::kUInt8).pinned_memory(pins));
    const torch::Tensor labels =
        torch::empty({count}, torch::dtype(torch::kInt64).pinned_memory(pins));
    auto* pixel = pixels.data_ptr<uint8_t>();
    auto* label = labels.data_ptr<int64_t>();
    const Pool<Workspace>::Lease workspace(source_->workspaces);
    int64_t made = 0;
    for (const int64_t index : indices) {
      check_index(index, size());
      if (const std::optional<int64_t> shown =
              make(index, *workspace, pixel + made * side * side * 3)) {
        label[made++] = source_->store->label(*shown);
      }
    }
    return {pixels.narrow(0, 0, made).permute({0, 3, 1, 2}), labels.narrow(0, 0, made)};
  }

  // All files that the GPU accepts go to it at once. The others, and those that it fails to decode,
  // are decoded like those of a CPU batch, one by one, with the same replacements.
  Batch make_gpu_batch(std::span<const int64_t> indices) const {
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t side = source_->options.recipe.size;
    const torch::Device device = *source_->options.gpu;
    const Pool<Workspace>::Lease lease(source_->workspaces);
    Workspace& workspace = *lease;
    std::vector<int64_t> shown = plan_batch(indices, workspace);
    // The decoder goes back before the CPU decodes the rest. Its stream remains the one of
    // `pixels`; another thread may then use it as well, which only delays the copies below.
    std::optional<Pool<GpuDecoder>::Lease> decoder(std::in_place, source_->gpu_decoders);
    const c10::StreamGuard guard((*decoder)->stream());
    torch::Tensor pixels =
        torch::empty({count, side, side, 3}, torch::dtype(torch::kUInt8).device(device));
    decode_on_gpu(indices, **decoder, workspace, pixels, shown);
    decoder.reset();
    const torch::Tensor row = torch::empty({side, side, 3}, torch::kUInt8);
    std::vector<int64_t> kept;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < count; ++i) {
      std::optional<int64_t> sample = shown[static_cast<size_t>(i)];
      if (*sample == kNotShown) {
        sample = make(indices[static_cast<size_t>(i)], workspace, row.data_ptr<uint8_t>());
        if (sample) {
          pixels[i].copy_(row);
          ++source_->cpu_count;
        }
      }
      if (sample) {
        kept.push_back(i);
        labels.push_back(source_->store->label(*sample));
      }
    }
    if (std::ssize(kept) < count) {
      pixels = pixels.index_select(0, torch::tensor(kept, torch::kInt64).to(device));
    }
    // Waits for the stream, because the source is not pinned: the batch is complete on return.
    const torch::Tensor targets = torch::tensor(labels, torch::kInt64).to(device);
    return {pixels.permute({0, 3, 1, 2}), targets};
  }

  static constexpr int64_t kNotShown = -1;

  // Reads the files that the GPU accepts into workspace.gpu_jpegs. Returns for each row of the
  // batch its sample, or kNotShown: the CPU decodes it.
  std::vector<int64_t> plan_batch(std::span<const int64_t> indices, Workspace& workspace) const {
    std::vector<int64_t> shown(indices.size(), kNotShown);
    workspace.gpu_files.resize(std::max(workspace.gpu_files.size(), indices.size()));
    workspace.gpu_jpegs.resize(indices.size());
    size_t planned = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      check_index(indices[i], size());
      GpuJpeg& jpeg = workspace.gpu_jpegs[planned];
      if (plan_for_gpu(indices[i], workspace, workspace.gpu_files[planned], jpeg)) {
        jpeg.place = static_cast<int64_t>(i);
        shown[i] = indices[i];
        ++planned;
      }
    }
    workspace.gpu_jpegs.resize(planned);
    return shown;
  }

  // Writes what plan_batch() has read to rows of `pixels`, and kNotShown to `shown` where that
  // fails.
  void decode_on_gpu(std::span<const int64_t> indices,
                     GpuDecoder& decoder,
                     const Workspace& workspace,
                     const torch::Tensor& pixels,
                     std::vector<int64_t>& shown) const {
    const auto failed = decoder.decode(workspace.gpu_jpegs, pixels);
    for (const int64_t place : failed) {
      source_->only_cpu.add(indices[static_cast<size_t>(place)]);
      shown[static_cast<size_t>(place)] = kNotShown;
    }
    source_->gpu_count += std::ssize(workspace.gpu_jpegs) - std::ssize(failed);
  }

  // A corrupt file is left to the CPU, which reports it.
  bool plan_for_gpu(int64_t index,
                    Workspace& workspace,
                    std::vector<std::byte>& buffer,
                    GpuJpeg& jpeg) const {
    if (source_->only_cpu.has(index) || source_->damaged.has(index)) {
      return false;
    }
    try {
      jpeg.file = source_->store->read(index, buffer);
      jpeg.header = workspace.maker.plan(jpeg.file, key_of(index), jpeg.plan);
    } catch (const image::Corrupt&) {
      return false;
    }
    return GpuDecoder::accepts(jpeg);
  }

  // Two steps: a sum of epoch and index would give equal keys to different pairs.
  uint64_t key_of(int64_t index) const {
    const uint64_t of_epoch = Random(source_->options.seed, static_cast<uint64_t>(epoch_)).next();
    return Random(of_epoch, static_cast<uint64_t>(index)).next();
  }

  // Writes the pixels of sample `requested` or of its replacement. Returns the index of the sample
  // that was written, or nothing for an omitted sample.
  std::optional<int64_t> make(int64_t requested, Workspace& workspace, uint8_t* output) const {
    const uint64_t key = key_of(requested);
    for (int64_t i = 0; i < size(); ++i) {
      const int64_t index = (requested + i) % size();
      if (try_to_make(index, key, workspace, output)) {
        return index;
      }
      if (source_->options.damaged == Damaged::LeaveOut) {
        return std::nullopt;
      }
    }
    throw Error(ExitCode::Io, "cannot train: no file is a valid image")
        .fact("files", std::to_string(size()))
        .fact("first", source_->store->name(0));
  }

  bool try_to_make(int64_t index, uint64_t key, Workspace& workspace, uint8_t* output) const {
    if (source_->damaged.has(index)) {
      return false;
    }
    try {
      workspace.maker.make(source_->store->read(index, workspace.file), key, output);
      return true;
    } catch (const image::Corrupt& corrupt) {
      const std::string name = source_->store->name(index);
      if (source_->options.damaged == Damaged::Refuse) {
        throw Error(ExitCode::Io, fmt::format("cannot decode {}: it {}", name, corrupt.what()))
            .fact("sample", std::to_string(index))
            .hint("--corrupt skip, to continue without such files");
      }
      source_->damaged.add(index, name, corrupt.what());
      return false;
    }
  }

  std::shared_ptr<Source> source_;
  int64_t epoch_;
};

}  // namespace

DatasetPtr image_files(image::StorePtr store, const ImageFilesOptions& options) {
  return std::make_shared<ImageFiles>(std::make_shared<Source>(std::move(store), options),
                                      /*epoch=*/0);
}

DecodeCounts decode_counts(const Dataset& dataset) {
  const auto* images = dynamic_cast<const ImageFiles*>(&dataset);
  LOCKSTEP_CHECK(images != nullptr);
  return images->counts();
}

}  // namespace lockstep::data

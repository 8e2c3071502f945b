// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/loader_images.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/image/drawn.h"
#include "common/image/folder_store.h"
#include "common/image/pack.h"
#include "common/image/pack_writer.h"
#include "common/os/files.h"
#include "common/os/processors.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;

// A selection of every n-th image of another store. Evenly spread, not the first images: data sets
// are sorted by class, and sizes differ by class.
class Sparse : public image::Store {
 public:
  Sparse(image::StorePtr all, int64_t count)
      : all_(std::move(all)), count_(std::min(count, all_->size())) {}

  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return all_->label(theirs(index)); }
  std::string name(int64_t index) const override { return all_->name(theirs(index)); }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& buffer) const override {
    return all_->read(theirs(index), buffer);
  }
  const std::vector<image::ClassName>& classes() const override { return all_->classes(); }

 private:
  // Multiplied before it is divided: a rounded stride would never reach the last classes.
  int64_t theirs(int64_t index) const { return index * all_->size() / count_; }

  image::StorePtr all_;
  int64_t count_;
};

// About the average size in ImageNet.
constexpr image::Size kDrawnSize = {.width = 500, .height = 375};
constexpr int kDrawnClasses = 10;

}  // namespace

LoaderImages find_images(const LoaderBenchOptions& options, const fs::path& scratch) {
  if (options.data_dir.empty()) {
    const auto per_class = static_cast<int>((options.images + kDrawnClasses - 1) / kDrawnClasses);
    image::write_drawn(scratch / "tiny-imagenet-200",
                       {.classes = kDrawnClasses,
                        .per_class = per_class,
                        .val_per_class = 1,
                        .size = kDrawnSize,
                        .threads = os::usable_processors()},
                       [](int64_t, int64_t) {});
    return {
        .store = std::make_shared<Sparse>(image::find_tiny_imagenet(scratch).train, options.images),
        .origin = fmt::format("generated, {} x {}", kDrawnSize.width, kDrawnSize.height)};
  }
  const image::Sets sets = options.is_tiny ? image::find_tiny_imagenet(options.data_dir)
                                           : image::find_imagenet(options.data_dir);
  // Packs have precedence over folders, as in training. The name of an image in a pack is
  // PACK:NAME, which is not a path.
  const bool is_packed = !fs::exists(sets.train->name(0));
  return {.store = std::make_shared<Sparse>(sets.train, options.images),
          .origin = sets.origin,
          .is_packed = is_packed};
}

// The copy has the same bytes, so that only the form of storage differs.
LoaderImages copy_images(const LoaderImages& images, const fs::path& scratch) {
  if (!images.is_packed) {
    const fs::path pack = scratch / "train.lspack";
    image::write_pack(*images.store, "train", pack, {.threads = os::usable_processors()});
    return {.store = image::open_pack(pack), .origin = images.origin, .is_packed = true};
  }
  const fs::path folder = scratch / "files";
  fs::create_directories(folder);
  auto files = std::make_shared<image::FolderStore>(images.store->classes());
  files->enter(folder);
  std::vector<std::byte> buffer;
  for (int64_t i = 0; i < images.store->size(); ++i) {
    const std::string name = fmt::format("{}.JPEG", i);
    const auto bytes = images.store->read(i, buffer);
    os::write_file(folder / name,
                   std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    files->add(name, images.store->label(i));
  }
  return {.store = std::move(files), .origin = images.origin, .is_packed = false};
}

// LABEL, tab, absolute path, one image per line: the peer reads the same files in the same order.
void write_list(const image::Store& store, const fs::path& file) {
  std::string lines;
  for (int64_t i = 0; i < store.size(); ++i) {
    lines += fmt::format("{}\t{}\n", store.label(i), fs::absolute(store.name(i)).string());
  }
  os::write_file(file, lines);
}

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#include "common/image/drawn.h"

#include <fmt/format.h>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/image/in_order.h"
#include "common/image/jpeg_encoder.h"
#include "common/os/files.h"
#include "common/os/peer_watch.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

// An image to draw, in one of the three splits.
struct Order {
  int drawn_class;
  uint64_t number;  // unique within the class
  fs::path folder;
  std::string file;
  std::string* list;  // the list for its name and box; null for test/
};

struct Drawn {
  std::string file;
  Region box;
};

// The content of the list files, collected while the images are drawn.
struct Lists {
  std::vector<std::string> boxes;  // of train/, by class
  std::string val;
};

std::vector<Order> orders_for(const DrawnOptions& options, Lists& lists) {
  std::vector<Order> orders;
  const auto per_class = static_cast<uint64_t>(options.per_class);
  const auto per_val = static_cast<uint64_t>(options.val_per_class);
  lists.boxes.resize(static_cast<size_t>(options.classes));
  for (int c = 0; c < options.classes; ++c) {
    const std::string id = name_of_drawn(c).id;
    for (uint64_t i = 0; i < per_class; ++i) {
      orders.push_back({.drawn_class = c,
                        .number = i,
                        .folder = fs::path("train") / id / "images",
                        .file = fmt::format("{}_{}.JPEG", id, i),
                        .list = &lists.boxes[static_cast<size_t>(c)]});
    }
  }
  // Classes alternate, because file names must not reveal them. Numbers from 2^32 on never occur in
  // train/, regardless of its size.
  for (const char* split : {"val", "test"}) {
    const bool is_val = split == std::string_view("val");
    const uint64_t first = uint64_t{1} << (is_val ? 32U : 33U);
    for (uint64_t i = 0; i < per_val * static_cast<uint64_t>(options.classes); ++i) {
      orders.push_back({.drawn_class = static_cast<int>(i % static_cast<uint64_t>(options.classes)),
                        .number = first + i,
                        .folder = fs::path(split) / "images",
                        .file = fmt::format("{}_{}.JPEG", split, i),
                        .list = is_val ? &lists.val : nullptr});
    }
  }
  return orders;
}

// Draws and encodes images; one per thread.
Drawn draw_one(const Order& order, const DrawnOptions& options, JpegEncoder& encoder) {
  const Drawing drawing = draw(order.drawn_class, order.number, options.seed, options.size);
  const std::span<const std::byte> file =
      encoder.encode(drawing.pixels.data(), options.size, options.quality);
  return {.file = {reinterpret_cast<const char*>(file.data()), file.size()}, .box = drawing.box};
}

std::string box_line(const Order& order, const Region& box) {
  const std::string id =
      order.folder.begin()->string() == "val" ? name_of_drawn(order.drawn_class).id + "\t" : "";
  return fmt::format("{}\t{}{}\t{}\t{}\t{}\n",
                     order.file,
                     id,
                     box.left,
                     box.top,
                     box.left + box.width,
                     box.top + box.height);
}

// Images are drawn in parallel and written in order by this thread. The same seed gives the same
// bytes for any number of threads, because each image has its own random stream.
void write_images(const fs::path& directory,
                  const std::vector<Order>& orders,
                  const DrawnOptions& options,
                  const Progress& progress) {
  std::vector<std::unique_ptr<JpegEncoder>> encoders;
  encoders.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    encoders.push_back(std::make_unique<JpegEncoder>());
  }
  const auto count = static_cast<int64_t>(orders.size());
  InOrder<Drawn> images(count, options.threads, [&](int64_t index, int thread) {
    return draw_one(
        orders[static_cast<size_t>(index)], options, *encoders[static_cast<size_t>(thread)]);
  });
  fs::path folder;
  for (const Order& order : orders) {
    if (order.folder != folder) {
      folder = order.folder;
      os::make_directories(directory / folder);
    }
    const Drawn drawn = images.next();
    os::replace_file(directory / folder / order.file, drawn.file);
    if (order.list != nullptr) {
      *order.list += box_line(order, drawn.box);
    }
    progress(&order - orders.data() + 1, count);
  }
}

void write_lists(const fs::path& directory, const DrawnOptions& options, const Lists& lists) {
  std::string ids;
  std::string words;
  for (int c = 0; c < options.classes; ++c) {
    const ClassName name = name_of_drawn(c);
    ids += name.id + "\n";
    words += fmt::format("{}\t{}\n", name.id, name.words);
    os::replace_file(directory / "train" / name.id / (name.id + "_boxes.txt"),
                     lists.boxes[static_cast<size_t>(c)]);
  }
  os::replace_file(directory / "wnids.txt", ids);
  os::replace_file(directory / "words.txt", words);
  os::replace_file(directory / "val" / "val_annotations.txt", lists.val);
}

// A temporary directory; removed by the destructor unless it was renamed. The data set is complete
// or absent: it is built under a hidden name and renamed at the end.
struct Draft {
  fs::path path;
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

bool is_drawn(const std::vector<ClassName>& classes) {
  if (classes.empty() || classes.size() > kMaxDrawnClasses) {
    return false;
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].id != name_of_drawn(static_cast<int>(i)).id) {
      return false;
    }
  }
  return true;
}

void write_drawn(const fs::path& directory, const DrawnOptions& options, const Progress& progress) {
  const fs::path parent = directory.parent_path();
  const Draft draft{parent /
                    fmt::format(".{}-{}", directory.filename().string(), os::process_id())};
  os::remove_tree(draft.path);
  os::make_directories(draft.path);
  Lists lists;
  const std::vector<Order> orders = orders_for(options, lists);
  write_images(draft.path, orders, options, progress);
  write_lists(draft.path, options, lists);
  os::rename_path(draft.path, directory);
}

}  // namespace lockstep::image

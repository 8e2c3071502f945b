// SPDX-License-Identifier: Apache-2.0
//
// Measures the path from JPEG files to batches without a model. Two views of the same work: images
// per second with several numbers of threads, through the Loader of the training; and microseconds
// per image on one thread, by part. The images are measured in both forms, as files and as a pack.
#include "lockstep/loader.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <torch/cuda.h>

#include <nlohmann/json.hpp>

#include "common/base/median.h"
#include "common/base/random.h"
#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/processors.h"
#include "lockstep/error.h"
#include "tools/bench/commands.h"
#include "tools/bench/loader_images.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "training/data/image_files.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Microseconds per image on one thread, by part.
struct Parts {
  double read = 0;
  double decode = 0;  // including scaling
  double rest = 0;    // rest of a batch: memory and labels
  double pin = 0;     // copy into pinned memory, which image data sets avoid; 0: no GPU
  double bytes = 0;   // file size, not a time
};

struct Figures {
  std::map<int, double> rates;     // images/s by number of threads
  double other_rate = 0;           // with the largest number of threads, from the other form
  std::optional<double> fallback;  // percentage of images that the GPU did not decode
  Parts parts;
};

image::Recipe recipe_of(const LoaderBenchOptions& options) {
  image::Recipe recipe;
  recipe.size = static_cast<int>(options.size);
  recipe.augments = true;
  return recipe;
}

// Images per second over an endless random order. Batches that the threads prefetched before the
// start of the measurement are not counted. The order is random with a fixed seed, as in training,
// so that neither the page cache nor the decoder profits from neighbours. Each thread has a batch
// in progress at the start, hence one batch per thread before the clock starts.
double measure_rate(const DatasetPtr& dataset,
                    const LoaderBenchOptions& options,
                    int threads,
                    bool pins) {
  const std::vector<int64_t> order = permutation(dataset->size(), Random(1, 0));
  const auto indices = [&](int64_t step) {
    std::vector<int64_t> mine;
    for (int64_t i = step * options.batch; i < (step + 1) * options.batch; ++i) {
      mine.push_back(order[static_cast<size_t>(i) % order.size()]);
    }
    return mine;
  };
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    // So many steps that the loader never ends, and (step + 1) * batch in indices() cannot
    // overflow.
    Loader loader(dataset,
                  std::numeric_limits<int64_t>::max() / options.batch,
                  indices,
                  {.threads = threads, .pin_memory = pins});
    for (int i = 0; i < std::max(1, threads); ++i) {
      loader.next();
    }
    const auto begin = Clock::now();
    int64_t images = 0;
    while (seconds_since(begin) < options.seconds) {
      images += loader.next()->size();
    }
    rates.push_back(static_cast<double>(images) / seconds_since(begin));
  }
  return median(rates);
}

// Reading and decoding are timed image by image; the batch is then made once more by the data set,
// and the remainder is what batching costs. The files are in the page cache after the first
// reading.
Parts measure_parts(const image::Store& store,
                    const Dataset& dataset,
                    const LoaderBenchOptions& options,
                    bool pins) {
  image::Maker maker(recipe_of(options));
  std::vector<std::byte> buffer;
  std::vector<uint8_t> pixels(static_cast<size_t>(options.size * options.size * 3));
  Parts sum;
  double whole = 0;
  int64_t images = 0;
  const auto begin = Clock::now();
  std::vector<int64_t> indices(static_cast<size_t>(options.batch));
  // At least one batch, however short --seconds is.
  while (images == 0 || seconds_since(begin) < options.seconds) {
    for (int64_t i = 0; i < options.batch; ++i) {
      const int64_t index = (images + i) % store.size();
      indices[static_cast<size_t>(i)] = index;
      const auto start = Clock::now();
      const auto file = store.read(index, buffer);
      const auto was_read = Clock::now();
      try {
        maker.make(file, static_cast<uint64_t>(index), pixels.data());
      } catch (const image::Corrupt&) {
        // The data set reports corrupt images below.
      }
      sum.bytes += static_cast<double>(file.size());
      sum.read += std::chrono::duration<double>(was_read - start).count();
      sum.decode += seconds_since(was_read);
    }
    const auto start = Clock::now();
    const Batch batch = dataset.batch(indices);
    whole += seconds_since(start);
    if (pins) {
      const auto made = Clock::now();
      static_cast<void>(batch.input.pin_memory());
      sum.pin += seconds_since(made);
    }
    images += options.batch;
  }
  const double scale = 1e6 / static_cast<double>(images);
  return {.read = sum.read * scale,
          .decode = sum.decode * scale,
          .rest = std::max(0.0, whole - sum.read - sum.decode) * scale,
          .pin = sum.pin * scale,
          .bytes = sum.bytes / static_cast<double>(images)};
}

void report(const LoaderBenchOptions& options,
            const LoaderImages& images,
            const Figures& ours,
            const nlohmann::json& theirs) {
  const nlohmann::json rates = theirs.value("images_per_second", nlohmann::json::object());
  const auto theirs_at = [&](int threads) {
    return find_figure(rates, std::to_string(threads));
  };
  std::vector<Row> rows;
  for (const auto& [threads, rate] : ours.rates) {
    rows.push_back({"images/s, " + plural(threads, "thread"), rate, theirs_at(threads), 0});
  }
  const auto& [maximum, best] = *ours.rates.rbegin();
  const auto per_thread = [maximum = maximum](std::optional<double> rate) {
    return rate ? std::optional(*rate / std::max(1, maximum)) : std::nullopt;
  };
  rows.push_back({fmt::format("images/s per thread, {}", plural(maximum, "thread")),
                  per_thread(best),
                  per_thread(theirs_at(maximum)),
                  0});
  rows.push_back({fmt::format("images/s, {}, {}",
                              plural(maximum, "thread"),
                              images.is_packed ? "as files" : "from a pack"),
                  ours.other_rate,
                  std::nullopt,
                  0});
  if (ours.fallback) {
    rows.push_back({"% of images decoded on the CPU instead", *ours.fallback});
  }
  rows.push_back({"KiB per file", ours.parts.bytes / 1024});
  rows.push_back({"us per image: read", ours.parts.read});
  rows.push_back({"us per image: decode and scale", ours.parts.decode});
  rows.push_back({"us per image: rest of the batch", ours.parts.rest});
  if (ours.parts.pin > 0) {
    rows.push_back({"us per image: copy to pinned memory (avoided)", ours.parts.pin});
  }
  fmt::print(
      "Loader, {} images ({}, {}), {} x {} pixels, batch {}, {} cores; medians of {} "
      "rounds of {:g} s\n\n{}\n",
      images.store->size(),
      images.origin,
      images.is_packed ? "packed" : "files",
      options.size,
      options.size,
      options.batch,
      os::usable_processors(),
      kRounds,
      options.seconds,
      format_rows(rows, rates.empty() ? "" : "torchvision"));
  if (const auto missing = theirs.find("missing"); missing != theirs.end()) {
    fmt::print("No peer: {0} has no {1}. Try {0} -m pip install torchvision pillow.\n",
               find_python(options.common.python),
               missing->get<std::string>());
  }
}

void write_json(const LoaderBenchOptions& options,
                const LoaderImages& images,
                const Figures& ours,
                const nlohmann::json& theirs) {
  nlohmann::json rates = nlohmann::json::object();
  for (const auto& [threads, rate] : ours.rates) {
    rates[std::to_string(threads)] = rate;
  }
  nlohmann::json json = {{"what", "loader"},
                         {"images", images.store->size()},
                         {"origin", images.origin},
                         {"form", images.is_packed ? "pack" : "files"},
                         {"size", options.size},
                         {"batch", options.batch},
                         {"cores", os::usable_processors()},
                         {"jpeg", options.jpeg},
                         {"lockstep",
                          {{"images_per_second", rates},
                           {"images_per_second_of_other_form", ours.other_rate},
                           {"bytes_per_image", ours.parts.bytes},
                           {"read_us", ours.parts.read},
                           {"decode_us", ours.parts.decode},
                           {"rest_us", ours.parts.rest},
                           {"pin_us", ours.parts.pin}}}};
  if (ours.fallback) {
    json["lockstep"]["fallback_percent"] = *ours.fallback;
  }
  if (!theirs.empty()) {
    json["peer"] = theirs;
  }
  os::write_file(options.common.json, json.dump(1) + "\n");
}

}  // namespace

namespace {

// The GPU of --jpeg gpu; nothing for the CPU.
std::optional<torch::Device> find_gpu(const LoaderBenchOptions& options, bool has_gpu) {
  if (options.jpeg == "cpu") {
    return std::nullopt;
  }
  if (!has_gpu) {
    throw Error(ExitCode::Usage,
                "cannot decode JPEG files on a GPU: there is none, or --device cpu")
        .fact("requested", "--jpeg gpu", "command line")
        .hint("--jpeg cpu");
  }
  return torch::Device(torch::kCUDA, 0);
}

std::optional<double> find_fallback(const LoaderBenchOptions& options, const Dataset& dataset) {
  if (options.jpeg == "cpu") {
    return std::nullopt;
  }
  const data::DecodeCounts counts = data::decode_counts(dataset);
  const int64_t all = std::max<int64_t>(1, counts.gpu + counts.cpu);
  return 100.0 * static_cast<double>(counts.cpu) / static_cast<double>(all);
}

}  // namespace

// The peer reads files only, so that it gets the file form even if the data set is packed.
int measure_loader(LoaderBenchOptions options) {
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("loader", options.common.python);
  }
  if (options.threads.empty()) {
    options.threads = {1, os::usable_processors()};
  }
  const bool pins = options.common.device != "cpu" && torch::cuda::is_available();
  const std::optional<torch::Device> gpu = find_gpu(options, pins);
  const os::TemporaryDirectory scratch;
  const LoaderImages images = find_images(options, scratch.path());
  const LoaderImages copy = copy_images(images, scratch.path());
  const auto dataset_of = [&](const LoaderImages& from) {
    return data::image_files(
        from.store, {.recipe = recipe_of(options), .damaged = data::Damaged::Replace, .gpu = gpu});
  };
  Figures ours;
  const DatasetPtr dataset = dataset_of(images);
  ours.parts = measure_parts(*images.store, *dataset, options, pins);
  for (const int threads : options.threads) {
    ours.rates[threads] = measure_rate(dataset, options, threads, pins);
  }
  ours.other_rate = measure_rate(dataset_of(copy), options, ours.rates.rbegin()->first, pins);
  ours.fallback = find_fallback(options, *dataset);
  nlohmann::json theirs = nlohmann::json::object();
  if (options.common.peer) {
    const std::filesystem::path list = scratch.path() / "list.txt";
    write_list(*(images.is_packed ? copy : images).store, list);
    std::vector<std::string> threads;
    for (const auto& [count, rate] : ours.rates) {
      threads.push_back(std::to_string(count));
    }
    std::vector<std::string> arguments = {"--list",
                                          list.string(),
                                          "--size",
                                          std::to_string(options.size),
                                          "--batch",
                                          std::to_string(options.batch),
                                          "--threads",
                                          join(threads, ","),
                                          "--seconds",
                                          fmt::format("{:g}", options.seconds),
                                          "--rounds",
                                          std::to_string(kRounds)};
    if (pins) {
      arguments.emplace_back("--pin");
    }
    theirs = run_peer(options.common.python, script, arguments);
  }
  report(options, images, ours, theirs);
  if (!options.common.json.empty()) {
    write_json(options, images, ours, theirs);
  }
  return 0;
}

}  // namespace lockstep::bench

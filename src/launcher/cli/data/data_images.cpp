// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/data/data_images.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/text.h"
#include "common/image/check.h"
#include "common/image/drawn.h"
#include "common/image/pack_writer.h"
#include "common/image/store.h"
#include "common/os/processors.h"
#include "launcher/cli/counter_line.h"
#include "launcher/cli/subcommands.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeDescription =
    "Generate a data set of images; needs no download\n"
    "\n"
    "Usage:\n"
    "  lockstep data make [OPTIONS] tiny-imagenet-like\n"
    "\n"
    "Draws ten kinds of shapes in four textures and five colours, at random positions\n"
    "and sizes and with noise. The folders have the layout of TinyImageNet: programs\n"
    "with --data-dir DIR read them as TinyImageNet. Equal options give equal images.";

constexpr const char* kMakeFooter =
    "Examples:\n"
    "  lockstep data make tiny-imagenet-like\n"
    "  lockstep data make tiny-imagenet-like --per-class 20 --size 500x375\n"
    "\n"
    "Exit codes:\n"
    "  0    the data set is complete\n"
    "  64   invalid option, or the folder already exists\n"
    "  74   a file could not be written\n"
    "\n"
    "Files:\n"
    "  DIR/tiny-imagenet-like/    wnids.txt, words.txt, train/, val/ and test/\n";

constexpr const char* kPackDescription =
    "Pack the images of a data set into one file per split\n"
    "\n"
    "Usage:\n"
    "  lockstep data pack [OPTIONS] tiny-imagenet|imagenet\n"
    "\n"
    "A pack is mapped into memory; image files need not be opened one by one. Images\n"
    "are copied unchanged, except those that --short-side scales down. If both packs\n"
    "are in the data directory, programs read them instead of the folders.";

constexpr const char* kPackFooter =
    "Examples:\n"
    "  lockstep data pack tiny-imagenet\n"
    "  lockstep data pack imagenet --short-side 256 --output /scratch/images\n"
    "\n"
    "Exit codes:\n"
    "  0    both packs are complete; --short-side also prints corrupt images\n"
    "  64   unknown data set or invalid option\n"
    "  74   the data set is missing, or a file could not be read or written\n"
    "\n"
    "Files:\n"
    "  DIR/NAME-train.lspack and DIR/NAME-val.lspack\n";

constexpr const char* kCheckDescription =
    "Decode every image of a data set and report corrupt ones\n"
    "\n"
    "Usage:\n"
    "  lockstep data check [OPTIONS] tiny-imagenet|imagenet";

constexpr const char* kCheckFooter =
    "Examples:\n"
    "  lockstep data check tiny-imagenet\n"
    "  lockstep data check imagenet --data-dir /scratch/images\n"
    "\n"
    "Exit codes:\n"
    "  0    all images can be decoded\n"
    "  1    corrupt images (one line each on stdout), or no validation images\n"
    "  64   unknown data set or invalid option\n"
    "  74   the data set is missing\n"
    "\n"
    "Files:\n"
    "  DIR/NAME/ as distributed, or DIR/NAME-train.lspack and DIR/NAME-val.lspack\n";

constexpr const char* kLike = "tiny-imagenet-like";
constexpr int kMaxPixels = 20000;  // maximum length of an edge

struct ImageOptions {
  image::DrawnOptions drawn;
  std::string size = "64";
  image::PackOptions pack;
  std::optional<std::string> output;
  int threads = 0;  // 0: one per core
};

// Throws an Error (64) unless minimum <= value <= maximum.
void require(std::string_view option, int64_t value, int64_t minimum, int64_t maximum) {
  if (value < minimum || value > maximum) {
    throw Error(ExitCode::Usage, fmt::format("{} {} is out of range", option, value))
        .fact("expected", fmt::format("{} to {}", minimum, maximum));
  }
}

// usable_processors() respects affinity, so that a job with four cores does not start 64 threads.
int threads_of(const ImageOptions& images) {
  require("--threads", images.threads, 0, 1024);
  return images.threads > 0 ? images.threads : std::max(os::usable_processors(), 1);
}

void require_name(std::string_view verb,
                  const std::string& name,
                  const std::vector<std::string>& names) {
  if (std::ranges::find(names, name) != names.end()) {
    return;
  }
  throw Error(ExitCode::Usage,
              name.empty() ? fmt::format("cannot {}: no data set given", verb)
                           : fmt::format("cannot {} '{}': unknown image data set", verb, name))
      .fact("available", join(names, ", "))
      .hint(fmt::format("lockstep data {} {}", verb, find_closest(name, names).value_or(names[0])));
}

image::Sets find_sets(std::string_view verb, const DataOptions& data_options, image::Look look) {
  require_name(verb, data_options.name, {"tiny-imagenet", "imagenet"});
  const fs::path directory = data_directory(data_options);
  return data_options.name == "imagenet" ? image::find_imagenet(directory, look)
                                         : image::find_tiny_imagenet(directory, look);
}

// "64", or "500x375".
image::Size size_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  std::vector<int64_t> edges;
  for (const std::string& part : parts) {
    if (const std::optional<int64_t> edge = find_integer(part)) {
      edges.push_back(*edge);
    }
  }
  if (edges.empty() || edges.size() > 2 || edges.size() != parts.size()) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --size", text))
        .fact("expected", "PIXELS or WIDTHxHEIGHT")
        .hint("--size 64, or --size 500x375");
  }
  for (const int64_t edge : edges) {
    require("--size", edge, 8, kMaxPixels);
  }
  return {.width = static_cast<int>(edges.front()), .height = static_cast<int>(edges.back())};
}

void make_images(const DataOptions& data_options, const ImageOptions& images) {
  require_name("make", data_options.name, {kLike});
  image::DrawnOptions options = images.drawn;
  require("--classes", options.classes, 2, image::kMaxDrawnClasses);
  require("--per-class", options.per_class, 1, 1'000'000);
  require("--val-per-class", options.val_per_class, 1, 1'000'000);
  options.size = size_of(images.size);
  options.threads = threads_of(images);
  const fs::path directory = fs::path(data_directory(data_options)) / kLike;
  std::error_code ignored;
  if (fs::exists(directory, ignored)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot make {}: {} already exists", kLike, directory.string()))
        .hint(fmt::format("rm -r {}, or another --data-dir", quote_for_shell(directory.string())));
  }
  CounterLine line(fmt::format("drawing {}", kLike));
  image::write_drawn(
      directory, options, [&line](int64_t done, int64_t of) { line.show(done, of); });
  line.clear();
  fmt::print("{} generated: {}, {} classes with {} training and {} validation images each\n",
             kLike,
             directory.string(),
             options.classes,
             format_count(options.per_class),
             format_count(options.val_per_class));
}

void print_problems(const std::vector<image::Problem>& problems) {
  for (const image::Problem& problem : problems) {
    fmt::print("{}: {}\n", problem.name, problem.reason);
  }
}

// Packs are always made from folders: a pack may already contain scaled images, which would be
// scaled a second time.
void pack_images(const DataOptions& data_options, const ImageOptions& images) {
  image::PackOptions options = images.pack;
  require("--short-side", options.short_side, 0, kMaxPixels);
  require("--quality", options.quality, 1, 100);
  options.threads = threads_of(images);
  const image::Sets sets = find_sets("pack", data_options, image::Look::FoldersOnly);
  if (sets.train->size() == 0) {
    throw Error(ExitCode::Usage, fmt::format("cannot pack {}: no training images", sets.origin))
        .hint(fmt::format("lockstep data check {}", data_options.name));
  }
  options.source = sets.source;
  const fs::path output = images.output.value_or(data_directory(data_options));
  fmt::print(stderr, "lockstep: packing {}\n", sets.origin);
  for (const auto& [split, store] :
       {std::pair{std::string("train"), sets.train}, std::pair{std::string("val"), sets.test}}) {
    const fs::path file = output / fmt::format("{}-{}.lspack", data_options.name, split);
    CounterLine line(fmt::format("packing {}", split));
    options.progress = [&line](int64_t done, int64_t of) {
      line.show(done, of);
    };
    const image::PackReport report = image::write_pack(*store, split, file, options);
    line.clear();
    print_problems(report.problems);
    const std::string looked_at = fmt::format("{} scaled down, {} corrupt",
                                              format_count(report.shrunk),
                                              format_count(std::ssize(report.problems)));
    fmt::print("{}: {} images, {}, {}\n",
               file.string(),
               format_count(report.images),
               options.short_side > 0 ? looked_at : "copied without a check",
               format_bytes(report.bytes));
  }
}

// Reads packs first, because programs do: the check covers what training would read.
void check_images(const DataOptions& data_options, const ImageOptions& images, Call& call) {
  const int threads = threads_of(images);
  const image::Sets sets = find_sets("check", data_options, image::Look::PacksFirst);
  fmt::print(stderr, "lockstep: checking {}\n", sets.origin);
  size_t corrupt = 0;
  for (const auto& [split, store] : {std::pair{"train", sets.train}, std::pair{"val", sets.test}}) {
    CounterLine line(fmt::format("checking {}", split));
    const std::vector<image::Problem> problems =
        image::check(*store, threads, [&line](int64_t done, int64_t of) { line.show(done, of); });
    line.clear();
    print_problems(problems);
    corrupt += problems.size();
  }
  fmt::print("{}: {} training images, {} validation images, {} classes, {} corrupt\n",
             data_options.name,
             format_count(sets.train->size()),
             format_count(sets.test->size()),
             format_count(static_cast<int64_t>(sets.train->classes().size())),
             corrupt);
  const bool can_validate = sets.test->size() > 0;
  if (!can_validate) {
    fmt::print("no validation images: train with --no-validation\n");
  }
  call.exit_code = corrupt > 0 || !can_validate ? 1 : 0;
}

// Declares an option whose default is its current value.
template <typename Value>
void add_value(CLI::App& app,
               const std::string& name,
               Value& value,
               const std::string& type,
               const std::string& text) {
  app.add_option(name, value, text)
      ->type_name(type)
      ->capture_default_str()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_threads(CLI::App& app, ImageOptions& images) {
  app.add_option("--threads", images.threads, "Number of threads")
      ->type_name("COUNT")
      ->default_str("one per core")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace

void add_image_commands(CLI::App& data,
                        const std::shared_ptr<DataOptions>& data_options,
                        Call& call) {
  auto images = std::make_shared<ImageOptions>();

  CLI::App* making = data.add_subcommand("make", kMakeDescription);
  making->footer(kMakeFooter);
  making->add_option("NAME", data_options->name, "Data set: tiny-imagenet-like");
  add_data_directory(*making, *data_options);
  add_value(*making, "--classes", images->drawn.classes, "COUNT", "Number of classes, 2 to 200");
  add_value(*making, "--per-class", images->drawn.per_class, "COUNT", "Training images per class");
  add_value(*making,
            "--val-per-class",
            images->drawn.val_per_class,
            "COUNT",
            "Validation images per class");
  add_value(*making, "--size", images->size, "PIXELS", "Pixels per edge, or WIDTHxHEIGHT");
  add_value(*making, "--seed", images->drawn.seed, "NUMBER", "Seed of the random generator");
  add_threads(*making, *images);
  making->callback([data_options, images] { make_images(*data_options, *images); });

  CLI::App* packing = data.add_subcommand("pack", kPackDescription);
  packing->footer(kPackFooter);
  packing->add_option("NAME", data_options->name, "Data set: tiny-imagenet or imagenet");
  add_data_directory(*packing, *data_options);
  packing->add_option("--output", images->output, "Directory for the packs")
      ->type_name("DIR")
      ->default_str("the data directory")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  packing
      ->add_option(
          "--short-side", images->pack.short_side, "Scale down images whose short side is longer")
      ->type_name("PIXELS")
      ->default_str("no scaling")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_value(*packing,
            "--quality",
            images->pack.quality,
            "NUMBER",
            "JPEG quality of scaled images, 1 to 100");
  add_threads(*packing, *images);
  packing->callback([data_options, images] { pack_images(*data_options, *images); });

  CLI::App* checking = data.add_subcommand("check", kCheckDescription);
  checking->footer(kCheckFooter);
  checking->add_option("NAME", data_options->name, "Data set: tiny-imagenet or imagenet");
  add_data_directory(*checking, *data_options);
  add_threads(*checking, *images);
  checking->callback([data_options, images, &call] { check_images(*data_options, *images, call); });
}

}  // namespace lockstep::cli

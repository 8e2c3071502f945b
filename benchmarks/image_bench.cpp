// SPDX-License-Identifier: Apache-2.0

// Measures how many JPEG files one core converts to samples of 224 x 224, and how many it only
// decodes. The files are generated, with 500 x 375 pixels and several qualities, hence several
// sizes.
//
//   cmake --build build --target image_bench && build/bench/image_bench

#include <benchmark/benchmark.h>
#include <cstddef>
#include <vector>

#include "common/image/drawn.h"
#include "common/image/jpeg_decoder.h"
#include "common/image/jpeg_encoder.h"
#include "common/image/sample.h"

namespace lockstep::image {
namespace {

constexpr Size kPhotograph = {.width = 500, .height = 375};
constexpr Size kUpright = {.width = 375, .height = 500};

using File = std::vector<std::byte>;

// One image in three has portrait orientation.
std::vector<File> draw_files(int quality) {
  std::vector<File> files;
  JpegEncoder encoder;
  for (int i = 0; i < 30; ++i) {
    const Size size = i % 3 == 2 ? kUpright : kPhotograph;
    const Drawing drawing = draw(i % 10, static_cast<uint64_t>(i), 1, size);
    const auto file = encoder.encode(drawing.pixels.data(), size, quality);
    files.emplace_back(file.begin(), file.end());
  }
  return files;
}

void report(benchmark::State& state, const std::vector<File>& files) {
  size_t bytes = 0;
  for (const File& file : files) {
    bytes += file.size();
  }
  state.counters["file_bytes"] = static_cast<double>(bytes) / static_cast<double>(files.size());
  state.SetItemsProcessed(state.iterations());
}

void make_samples(benchmark::State& state, bool augments) {
  const std::vector<File> files = draw_files(static_cast<int>(state.range(0)));
  const Recipe recipe = {.augments = augments};
  Maker maker(recipe);
  std::vector<uint8_t> sample(static_cast<size_t>(recipe.size * recipe.size * 3));
  uint64_t key = 0;
  for (auto _ : state) {
    maker.make(files[key % files.size()], key, sample.data());
    ++key;
  }
  report(state, files);
}

// At 1/8 scale, Huffman decoding takes nearly all of the time.
void decode_whole(benchmark::State& state, int eighths) {
  const std::vector<File> files = draw_files(static_cast<int>(state.range(0)));
  JpegDecoder decoder;
  std::vector<uint8_t> row(size_t{500} * 4);
  size_t next = 0;
  for (auto _ : state) {
    const JpegDecoder::Header header = decoder.open(files[next++ % files.size()]);
    const int width = scaled_pixels(header.width, eighths);
    const int height = scaled_pixels(header.height, eighths);
    decoder.start(eighths, {.width = width, .height = height});
    for (int y = 0; y < height; ++y) {
      decoder.read_row(row.data());
    }
    decoder.finish();
  }
  report(state, files);
}

BENCHMARK_CAPTURE(make_samples, train, true)->Arg(75)->Arg(90)->Arg(95);
BENCHMARK_CAPTURE(make_samples, validate, false)->Arg(75)->Arg(90)->Arg(95);
BENCHMARK_CAPTURE(decode_whole, pixels, JpegDecoder::kWhole)->Arg(75)->Arg(90)->Arg(95);
BENCHMARK_CAPTURE(decode_whole, codes, 1)->Arg(75)->Arg(90)->Arg(95);

}  // namespace
}  // namespace lockstep::image

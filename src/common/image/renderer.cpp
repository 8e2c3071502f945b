// SPDX-License-Identifier: Apache-2.0
//
// From a JPEG file to the pixels of a sample, without an intermediate image:
//
//   crop in the upright image
//     -> box in the stored image         (EXIF orientation undone)
//     -> scale of libjpeg in eighths     (1, 2, 4 or 8: cheap reduction while decoding)
//     -> rows of the box, one at a time  (ring of as many rows as the filter needs)
//     -> output rows                     (written with the steps of the orientation and mirroring)
#include "common/image/renderer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::image {
namespace {

constexpr int64_t kPixelBytes = 3;  // output: RGB
constexpr size_t kSourceBytes = 4;  // source: RGBX

// Converts a box of the upright image to the stored image.
Box as_stored(Box box, Size upright, const Orientation& orientation) {
  if (orientation.flips_x) {
    box = {.left = upright.width - box.right,
           .top = box.top,
           .right = upright.width - box.left,
           .bottom = box.bottom};
  }
  if (orientation.flips_y) {
    box = {.left = box.left,
           .top = upright.height - box.bottom,
           .right = box.right,
           .bottom = upright.height - box.top};
  }
  if (orientation.swaps) {
    box = {.left = box.top, .top = box.left, .right = box.bottom, .bottom = box.right};
  }
  return box;
}

// The smallest decoding size at which the box has at least as many pixels as the output. Only
// powers of two: libjpeg-turbo has no SIMD code for other sizes, which are slower than the full
// size.
int choose_eighths(const Box& box, Size size) {
  const double width = box.right - box.left;
  const double height = box.bottom - box.top;
  int eighths = 1;
  while (eighths < JpegDecoder::kWhole && (width * eighths < size.width * JpegDecoder::kWhole ||
                                           height * eighths < size.height * JpegDecoder::kWhole)) {
    eighths *= 2;
  }
  return eighths;
}

struct Span {
  double begin;
  double end;
};

// Scales one edge of length `pixels` to the decoding size.
Axis::Plan plan_axis(Span box, Span limits, int pixels, int eighths, int outputs) {
  const double scale = static_cast<double>(eighths) / JpegDecoder::kWhole;
  return {.begin = box.begin * scale,
          .end = box.end * scale,
          .lowest = static_cast<int>(std::floor(limits.begin * scale)),
          .highest = std::min(static_cast<int>(std::ceil(limits.end * scale)),
                              scaled_pixels(pixels, eighths)),
          .outputs = outputs};
}

}  // namespace

Size Renderer::open(std::span<const std::byte> file) {
  header_ = decoder_.open(file);
  if (header_.orientation.swaps) {
    return {.width = header_.height, .height = header_.width};
  }
  return {.width = header_.width, .height = header_.height};
}

void plan_render(const JpegDecoder::Header& header, const Crop& crop, Size size, RenderPlan& plan) {
  const Orientation& turned = header.orientation;
  const Size upright =
      turned.swaps ? Size{header.height, header.width} : Size{header.width, header.height};
  const Size stored = turned.swaps ? Size{size.height, size.width} : size;
  const Box box = as_stored(crop.box, upright, turned);
  const Box limits = as_stored(crop.limits, upright, turned);
  plan.eighths = choose_eighths(box, stored);
  plan.columns.prepare(plan_axis({box.left, box.right},
                                 {limits.left, limits.right},
                                 header.width,
                                 plan.eighths,
                                 stored.width));
  plan.rows.prepare(plan_axis({box.top, box.bottom},
                              {limits.top, limits.bottom},
                              header.height,
                              plan.eighths,
                              stored.height));

  // Byte steps in the output for one pixel to the right and one row down in the upright image.
  int64_t x_step = kPixelBytes;
  int64_t y_step = kPixelBytes * size.width;
  plan.start = 0;
  if (turned.flips_x != crop.is_mirrored) {
    plan.start += x_step * (size.width - 1);
    x_step = -x_step;
  }
  if (turned.flips_y) {
    plan.start += y_step * (size.height - 1);
    y_step = -y_step;
  }
  if (turned.swaps) {
    std::swap(x_step, y_step);
  }
  plan.row_step = y_step;
  plan.column_step = x_step;
}

void Renderer::render(const Crop& crop, Size size, uint8_t* output) {
  plan_render(header_, crop, size, plan_);
  // One more column on each side, because chroma upsampling uses neighbours.
  const int left = std::max(plan_.columns.lowest() - 1, 0);
  const int right =
      std::min(plan_.columns.highest() + 1, scaled_pixels(header_.width, plan_.eighths));
  const Region region = decoder_.start(plan_.eighths,
                                       {.left = left,
                                        .top = plan_.rows.lowest(),
                                        .width = right - left,
                                        .height = plan_.rows.highest() - plan_.rows.lowest()});
  write_rows(region, output);
  decoder_.finish();
}

// Rows of the ring are addressed by their number modulo the number of taps. The inputs of
// successive output rows only move forward, so a row is overwritten only after its last use.
void Renderer::write_rows(const Region& region, uint8_t* output) {
  const Axis& rows = plan_.rows;
  resampler_.prepare(plan_.columns, region.left, region.width);
  const size_t row_bytes = static_cast<size_t>(region.width) * kSourceBytes;
  const int kept = rows.taps();
  ring_.resize(row_bytes * static_cast<size_t>(kept));
  blended_rows_.resize(static_cast<size_t>(kept));
  const auto place = [&](int row) {
    return ring_.data() + static_cast<size_t>(row % kept) * row_bytes;
  };
  uint8_t* const start = output + plan_.start;
  int next = region.top;
  for (int i = 0; i < rows.outputs(); ++i) {
    const int first = rows.first(i);
    const int count = rows.count(i);
    for (; next < first + count; ++next) {
      decoder_.read_row(place(next));
    }
    for (int k = 0; k < count; ++k) {
      blended_rows_[static_cast<size_t>(k)] = place(first + k);
    }
    resampler_.write(blended_rows_.data(),
                     rows.weights(i),
                     count,
                     start + i * plan_.row_step,
                     plan_.column_step);
  }
}

}  // namespace lockstep::image

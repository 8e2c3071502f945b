// SPDX-License-Identifier: Apache-2.0
#include "training/data/idx.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// The IDX format of MNIST (yann.lecun.com/exdb/mnist), big-endian:
//
//   00 00 TYPE D      magic: type 08 is unsigned byte, D is the number of dimensions
//   u32 x D           sizes; the first is the number of samples
//   bytes             values, the last dimension varies fastest
//
// Every number is checked against the size of the file, and every error names its byte: downloads
// that end early are common.
constexpr uint8_t kUnsignedByte = 8;

// The expected format of a file.
struct Layout {
  std::string_view what;           // "images"
  std::string_view each;           // "image"
  std::string_view shape;          // " of 28 x 28"
  uint8_t dimensions;              // the first is the number of samples
  std::span<const int64_t> sides;  // the other dimensions

  size_t header_bytes() const { return 4 + 4 * size_t{dimensions}; }

  int64_t sample_bytes() const {
    int64_t product = 1;
    for (const int64_t side : sides) {
      product *= side;
    }
    return product;
  }
};

constexpr std::array kSides = {kImageSide, kImageSide};
constexpr Layout kImages = {"images", "image", " of 28 x 28", 3, kSides};
constexpr Layout kLabels = {"labels", "label", "", 1, {}};

// Parses one file.
class Reader {
 public:
  Reader(const std::filesystem::path& path, const Layout& layout)
      : path_(path), layout_(layout), content_(read_content(path)) {}

  Bytes read() const {
    check_magic();
    const auto count = check_dimensions();
    const size_t header = layout_.header_bytes();
    const size_t end = header + static_cast<size_t>(count * layout_.sample_bytes());
    const auto samples = fmt::format("{} {}{}", count, layout_.what, layout_.shape);
    if (bytes().size() < end) {
      refuse("it ends too early",
             bytes().size(),
             "the end of the file",
             fmt::format("byte {}, the end of {}", end, samples));
    }
    if (bytes().size() > end) {
      refuse(fmt::format("there is data after its last {}", layout_.each),
             end,
             fmt::format("{} more bytes", bytes().size() - end),
             fmt::format("the end of {}", samples));
    }
    return content_.bytes.from(header);
  }

  [[noreturn]] void refuse(std::string_view why,
                           size_t offset,
                           std::string_view found,
                           std::string_view expected) const {
    throw Error(ExitCode::Io, fmt::format("cannot read {}: {}", path_.string(), why))
        .fact("byte",
              std::to_string(offset),
              content_.was_compressed ? "of the unpacked content" : "")
        .fact("found", found)
        .fact("expected", expected)
        .hint("lockstep data fetch mnist");
  }

 private:
  std::span<const uint8_t> bytes() const { return content_.bytes.span; }

  int64_t dimension(size_t index) const {
    int64_t value = 0;
    for (const uint8_t byte : bytes().subspan(4 + 4 * index, 4)) {
      value = value << 8 | byte;
    }
    return value;
  }

  void check_magic() const {
    const auto magic = bytes().first(std::min<size_t>(bytes().size(), 4));
    if (magic.size() >= 2 && (magic[0] != 0 || magic[1] != 0)) {
      refuse("it is not an IDX file",
             0,
             fmt::format("{:02x}", fmt::join(magic, " ")),
             fmt::format("00 00 {:02x} {:02x}", kUnsignedByte, layout_.dimensions));
    }
    if (magic.size() == 4 && magic[2] != kUnsignedByte) {
      refuse("its values are not unsigned bytes",
             2,
             fmt::format("type {:02x}", magic[2]),
             fmt::format("type {:02x}", kUnsignedByte));
    }
    if (magic.size() == 4 && magic[3] != layout_.dimensions) {
      refuse(fmt::format("it does not contain {}", layout_.what),
             3,
             fmt::format("dimensions: {}", magic[3]),
             fmt::format("dimensions: {}", layout_.dimensions));
    }
    if (bytes().size() < layout_.header_bytes()) {
      refuse("it ends inside its header",
             bytes().size(),
             "the end of the file",
             fmt::format("a header of {} bytes", layout_.header_bytes()));
    }
  }

  // Returns the number of samples.
  int64_t check_dimensions() const {
    for (size_t i = 0; i < layout_.sides.size(); ++i) {
      const int64_t found = dimension(i + 1);
      if (found != layout_.sides[i]) {
        refuse(fmt::format("its {} are not{}", layout_.what, layout_.shape.substr(3)),
               8 + 4 * i,
               fmt::format("{} pixels", found),
               fmt::format("{} pixels", layout_.sides[i]));
      }
    }
    const int64_t count = dimension(0);
    if (count == 0) {
      refuse(fmt::format("it contains no {}", layout_.what), 4, "0", "at least 1");
    }
    return count;
  }

  const std::filesystem::path& path_;
  const Layout& layout_;
  FileContent content_;
};

}  // namespace

Bytes read_idx_images(const std::filesystem::path& path) {
  return Reader(path, kImages).read();
}

Bytes read_idx_labels(const std::filesystem::path& path) {
  const Reader reader(path, kLabels);
  Bytes labels = reader.read();
  const auto wrong = std::ranges::find_if(labels.span, [](uint8_t it) { return it >= kClasses; });
  if (wrong != labels.span.end()) {
    reader.refuse("it contains a label above 9",
                  kLabels.header_bytes() + static_cast<size_t>(wrong - labels.span.begin()),
                  fmt::format("label {}", *wrong),
                  "0 to 9");
  }
  return labels;
}

LabelledImages read_idx_pair(const std::filesystem::path& images,
                             const std::filesystem::path& labels) {
  LabelledImages pair = {read_idx_images(images), read_idx_labels(labels)};
  const size_t image_count = pair.pixels.span.size() / kImagePixels;
  if (image_count != pair.labels.span.size()) {
    throw Error(ExitCode::Io, "the numbers of images and labels differ")
        .fact("images", std::to_string(image_count), images.string())
        .fact("labels", std::to_string(pair.labels.span.size()), labels.string())
        .hint("lockstep data fetch mnist");
  }
  return pair;
}

}  // namespace lockstep::data

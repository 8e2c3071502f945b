// SPDX-License-Identifier: Apache-2.0
#include "training/data/byte_images.h"

#include <array>
#include <utility>

#include "training/data/check_index.h"

namespace lockstep::data {
namespace {

// The normalized value of each byte. Uses the float32 arithmetic of ToTensor and Normalize in
// PyTorch, so that batches are identical bit by bit.
using Table = std::array<float, 256>;

Table normalised_bytes() {
  // Mean and standard deviation of the training images of MNIST, as in pytorch/examples.
  constexpr float kMean = 0.1307F;
  constexpr float kDeviation = 0.3081F;
  Table table = {};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = (static_cast<float>(byte) / 255.0F - kMean) / kDeviation;
  }
  return table;
}

class ByteImages : public Dataset {
 public:
  explicit ByteImages(LabelledImages images)
      : images_(std::move(images)), table_(normalised_bytes()) {}

  int64_t size() const override { return static_cast<int64_t>(images_.labels.span.size()); }

  Example example(int64_t index) const override {
    const Batch one = batch(std::span(&index, 1));
    return {one.input[0], one.target[0]};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch made = {torch::empty({count, 1, kImageSide, kImageSide}, torch::kFloat32),
                  torch::empty({count}, torch::kInt64)};
    auto* pixel = made.input.data_ptr<float>();
    auto* label = made.target.data_ptr<int64_t>();
    for (const int64_t index : indices) {
      check_index(index, size());
      const uint8_t* image = images_.pixels.span.data() + index * kImagePixels;
      for (int64_t i = 0; i < kImagePixels; ++i) {
        pixel[i] = table_[image[i]];
      }
      pixel += kImagePixels;
      *label++ = images_.labels.span[static_cast<size_t>(index)];
    }
    return made;
  }

 private:
  LabelledImages images_;
  Table table_;
};

}  // namespace

DatasetPtr byte_images(LabelledImages images) {
  return std::make_shared<ByteImages>(std::move(images));
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "common/image/jpeg_encoder.h"
#include "common/os/files.h"

namespace lockstep {

// Returns a JPEG file with a colour gradient that depends on `shade`.
inline std::string jpeg_text(int width, int height, int shade) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.push_back(static_cast<uint8_t>((shade + 255 * x / width) % 256));
      pixels.push_back(static_cast<uint8_t>((255 * y / height) % 256));
      pixels.push_back(static_cast<uint8_t>(shade % 256));
    }
  }
  image::JpegEncoder encoder;
  const auto bytes = encoder.encode(pixels.data(), {.width = width, .height = height}, 90);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A data set in the layout of TinyImageNet, with two classes.
class TinyFolders {
 public:
  TinyFolders(int train, int test) {
    write("wnids.txt", "n01\nn02\n");
    std::string annotations;
    for (int i = 0; i < train; ++i) {
      write(train_name(i), jpeg_text(64, 64, 3 * i));
    }
    for (int i = 0; i < test; ++i) {
      write(test_name(i), jpeg_text(64, 64, 5 * i));
      annotations += fmt::format("val_{:03}.JPEG\t{}\t0\t0\t1\t1\n", i, i % 2 == 0 ? "n01" : "n02");
    }
    write("val/val_annotations.txt", annotations);
  }

  const std::filesystem::path& path() const { return directory_.path(); }

  // Paths relative to the directory of the data set. Samples are sorted by these names, so the
  // first half belongs to the first class. Each class has at most 500 images.
  static std::string train_name(int i) {
    const char* id = i % 2 == 0 ? "n01" : "n02";
    return fmt::format("train/{}/images/{}_{:03}.JPEG", id, id, i / 2);
  }
  static std::string test_name(int i) { return fmt::format("val/images/val_{:03}.JPEG", i); }

  std::filesystem::path file(const std::string& name) const {
    return path() / "tiny-imagenet-200" / name;
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(file(name).parent_path());
    os::write_file(file(name), text);
  }

 private:
  os::TemporaryDirectory directory_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::image {

struct ClassName {
  std::string id;     // "n01443537"
  std::string words;  // "goldfish, Carassius auratus"; the id where nothing tells them
};

// The images of one split, still compressed, with their labels. Any thread may call.
class Store {
 public:
  virtual ~Store() = default;

  virtual int64_t size() const = 0;

  // The number of the class of image `index`: its place in classes().
  virtual int64_t label(int64_t index) const = 0;

  // A path, or PACK:name; for people.
  virtual std::string name(int64_t index) const = 0;

  // The bytes of the file. `buffer` is the caller's and reused; the result may point into it or
  // into a mapped file. Throws an Error (74) when they cannot be read.
  virtual std::span<const std::byte> read(int64_t index, std::vector<std::byte>& buffer) const = 0;

  virtual const std::vector<ClassName>& classes() const = 0;

  // The CRC-32 that the bytes of an image should have, where it is known (packs).
  virtual std::optional<uint32_t> crc(int64_t /*index*/) const { return std::nullopt; }

  // The folder that the images were packed from, where it is known (packs).
  virtual std::string source() const { return {}; }

  // The first sample of each file that samples are read from (packs).
  virtual std::vector<int64_t> files() const { return {0}; }
};

using StorePtr = std::shared_ptr<const Store>;

struct Sets {
  StorePtr train;
  StorePtr test;
  std::string origin;  // in words: which set, from where
  std::string source;  // the name of its folder, or of the folder that it was packed from
};

enum class Look {
  PacksFirst,
  FoldersOnly,  // as they are distributed
};

// Each takes packs where there are some, else the folders as they are distributed, from the first
// of several directories that has them. Classes are numbered in the order of their ids, as
// torchvision does. Throw Errors (74) that list where they looked, or what was wrong at which line
// of which file.

// DIR/tiny-imagenet-200, DIR/tiny-imagenet, DIR/tiny-imagenet-like (drawn ones), DIR.
Sets find_tiny_imagenet(const std::filesystem::path& data_dir, Look look = Look::PacksFirst);

// DIR/imagenet, DIR/ILSVRC, DIR/imagenet/ILSVRC, DIR.
Sets find_imagenet(const std::filesystem::path& data_dir, Look look = Look::PacksFirst);

}  // namespace lockstep::image

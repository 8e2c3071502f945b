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
  std::string words;  // "goldfish, Carassius auratus"; the id if unknown
};

// The compressed images of one split with their labels. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  virtual int64_t size() const = 0;

  // The class of image `index`, as an index into classes().
  virtual int64_t label(int64_t index) const = 0;

  // A path, or PACK:name, for messages.
  virtual std::string name(int64_t index) const = 0;

  // The bytes of the file. The result can point into `buffer`, which belongs to the caller and is
  // reused, or into a mapped file. Throws an Error (74) if the file cannot be read.
  virtual std::span<const std::byte> read(int64_t index, std::vector<std::byte>& buffer) const = 0;

  virtual const std::vector<ClassName>& classes() const = 0;

  // The expected CRC-32 of an image, if known (packs).
  virtual std::optional<uint32_t> crc(int64_t /*index*/) const { return std::nullopt; }

  // The folder from which the images were packed, if known (packs).
  virtual std::string source() const { return {}; }

  // The first sample of each file that contains samples (packs).
  virtual std::vector<int64_t> files() const { return {0}; }
};

using StorePtr = std::shared_ptr<const Store>;

struct Sets {
  StorePtr train;
  StorePtr test;
  std::string origin;  // description of the data set and its location
  std::string source;  // name of its folder, or of the folder from which it was packed
};

enum class Look {
  PacksFirst,
  FoldersOnly,  // as distributed
};

// Each reads packs if they exist, otherwise the folders as distributed, from the first directory
// that contains them. Classes are numbered in the order of their ids, as in torchvision. Both throw
// Errors (74) with the directories searched, or with the file, line and reason.

// DIR/tiny-imagenet-200, DIR/tiny-imagenet, DIR/tiny-imagenet-like (generated images), DIR.
Sets find_tiny_imagenet(const std::filesystem::path& data_dir, Look look = Look::PacksFirst);

// DIR/imagenet, DIR/ILSVRC, DIR/imagenet/ILSVRC, DIR.
Sets find_imagenet(const std::filesystem::path& data_dir, Look look = Look::PacksFirst);

}  // namespace lockstep::image

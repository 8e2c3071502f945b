// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/piece_sources.h"

#include <algorithm>
#include <fmt/format.h>
#include <torch/utils.h>

#include "common/os/files.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/safetensors.h"
#include "training/checkpoint/shard.h"

namespace lockstep::checkpoint {
namespace {

// The common part of the sources: names, shapes, types and range checks.
class KnownTensors : public PieceSource {
 public:
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, entry] : tensors_) {
      names.push_back(name);
    }
    return names;
  }
  bool has(std::string_view name) const override { return tensors_.find(name) != tensors_.end(); }
  std::vector<int64_t> shape(std::string_view name) const override { return find(name).shape; }
  torch::ScalarType dtype(std::string_view name) const override {
    return type_of(find(name).dtype, name);
  }
  std::string description() const override { return description_; }

  void read(std::string_view name, int64_t offset, torch::Tensor& into) const override {
    const TensorEntry& entry = find(name);
    const int64_t count = into.numel();
    if (offset < 0 || count > entry.elements() - offset) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot read elements {} to {} of tensor \"{}\" from {}",
                              offset,
                              offset + count,
                              name,
                              description_))
          .fact("elements", std::to_string(entry.elements()));
    }
    // Elements are counted in row-major order. A target with other strides (channels_last) is
    // filled through a contiguous tensor.
    const torch::NoGradGuard no_grad;
    const bool is_plain = into.is_contiguous();
    torch::Tensor target =
        is_plain ? into.detach() : torch::empty(into.sizes(), into.scalar_type());
    torch::Tensor flat = target.view(-1);
    read_flat(name, entry, offset, flat);
    if (!is_plain) {
      into.detach().copy_(target);
    }
  }

 protected:
  KnownTensors(TensorTable tensors, std::string description)
      : tensors_(std::move(tensors)), description_(std::move(description)) {}

  // `flat` is contiguous and one-dimensional; the range has been checked.
  virtual void read_flat(std::string_view name,
                         const TensorEntry& entry,
                         int64_t offset,
                         torch::Tensor& flat) const = 0;

  const TensorTable& table() const { return tensors_; }

 private:
  const TensorEntry& find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot find tensor \"{}\" in {}", name, description_));
    }
    return found->second;
  }

  TensorTable tensors_;
  std::string description_;
};

// Tensors in safetensors files, read on demand: restoring a shard of the optimizer reads only its
// own elements. Also a single safetensors file of other programs, whose tensors are not cut
// (is_cut).
class Shards final : public KnownTensors {
 public:
  Shards(TensorTable tensors,
         std::string description,
         const std::vector<std::filesystem::path>& files,
         bool is_cut)
      : KnownTensors(std::move(tensors), std::move(description)), is_cut_(is_cut) {
    files_.reserve(files.size());
    headers_.reserve(files.size());
    for (const std::filesystem::path& file : files) {
      files_.emplace_back(file);
      headers_.push_back(read_safetensors_header(files_.back()));
    }
    // The manifest and the headers of the shards must agree, before training starts with them.
    for (const auto& [name, entry] : table()) {
      for (const Stretch& stretch : entry.stretches) {
        offset_of(name, entry, stretch);  // throws if the shard does not contain it
      }
    }
  }

 private:
  void read_flat(std::string_view name,
                 const TensorEntry& entry,
                 int64_t offset,
                 torch::Tensor& flat) const override {
    const int64_t end = offset + flat.numel();
    // Stretches are sorted and do not overlap (require_covered), so every element is read once.
    for (const Stretch& stretch : entry.stretches) {
      const int64_t from = std::max(offset, stretch.offset);
      const int64_t to = std::min(end, stretch.offset + stretch.count);
      if (from < to) {
        const uint64_t width = width_of(entry.dtype);
        const uint64_t byte =
            offset_of(name, entry, stretch) + static_cast<uint64_t>(from - stretch.offset) * width;
        read_stretch(files_[static_cast<size_t>(stretch.shard)],
                     byte,
                     type_of(entry.dtype, name),
                     flat.narrow(0, from - offset, to - from));
      }
    }
  }

  static void read_stretch(const os::InputFile& file,
                           uint64_t byte,
                           torch::ScalarType type,
                           torch::Tensor to) {
    const auto width = static_cast<uint64_t>(c10::elementSize(type));
    if (to.is_cpu() && to.scalar_type() == type) {
      file.read(byte, to.data_ptr(), static_cast<uint64_t>(to.numel()) * width);
      return;
    }
    // Another type or device: converted in blocks, so that a large tensor is not in memory twice.
    constexpr int64_t kAtOnce = int64_t{1} << 22;
    torch::Tensor some = torch::empty({std::min(kAtOnce, to.numel())}, type);
    for (int64_t at = 0; at < to.numel(); at += kAtOnce) {
      const int64_t count = std::min(kAtOnce, to.numel() - at);
      file.read(byte + static_cast<uint64_t>(at) * width,
                some.data_ptr(),
                static_cast<uint64_t>(count) * width);
      to.narrow(0, at, count).copy_(some.narrow(0, 0, count));
    }
  }

  // The offset of the first byte of a stretch in its file.
  uint64_t offset_of(std::string_view name,
                     const TensorEntry& entry,
                     const Stretch& stretch) const {
    const auto shard = static_cast<size_t>(stretch.shard);
    if (shard < headers_.size()) {
      const auto& held = headers_[shard].tensors;
      const auto found =
          held.find(is_cut_ ? fmt::format("{}@{}", name, stretch.offset) : std::string(name));
      if (found != held.end() && found->second.dtype == entry.dtype &&
          found->second.end - found->second.begin ==
              static_cast<uint64_t>(stretch.count) * width_of(entry.dtype)) {
        return headers_[shard].data_offset + found->second.begin;
      }
    }
    throw Error(
        ExitCode::Io,
        fmt::format("cannot use {}: shard {} does not contain tensor \"{}\" from element {} on",
                    description(),
                    stretch.shard,
                    name,
                    stretch.offset));
  }

  bool is_cut_;  // entries are named NAME@OFFSET, as in shards
  std::vector<os::InputFile> files_;
  std::vector<SafetensorsHeader> headers_;
};

// Tensors in memory, as from a checkpoint of version 1, whose files can only be read as a whole.
class Held final : public KnownTensors {
 public:
  Held(TensorTable table, std::string description, NamedTensors tensors)
      : KnownTensors(std::move(table), std::move(description)) {
    for (auto& [name, tensor] : tensors) {
      tensors_.emplace(name, tensor.detach().reshape(-1));
    }
  }

 private:
  void read_flat(std::string_view name,
                 const TensorEntry& /*entry*/,
                 int64_t offset,
                 torch::Tensor& flat) const override {
    flat.copy_(tensors_.find(name)->second.narrow(0, offset, flat.numel()));
  }

  std::map<std::string, torch::Tensor, std::less<>> tensors_;
};

void append(NamedTensors& all, std::string_view prefix, NamedTensors more) {
  for (auto& [name, tensor] : more) {
    all.emplace_back(fmt::format("{}{}", prefix, name), std::move(tensor));
  }
}

}  // namespace

std::unique_ptr<PieceSource> open_shards(const std::filesystem::path& directory,
                                         const std::vector<std::string>& files,
                                         TensorTable tensors) {
  const auto writers = static_cast<int>(std::ranges::count_if(files, [](const std::string& name) {
    return name.starts_with("shard-") && name.ends_with(".safetensors");
  }));
  std::vector<std::filesystem::path> shards;
  shards.reserve(static_cast<size_t>(writers));
  for (int rank = 0; rank < writers; ++rank) {
    shards.push_back(directory / shard_name(rank, writers));
  }
  const std::string description = "checkpoint " + directory.string();
  require_covered(tensors, description);
  return std::make_unique<Shards>(std::move(tensors), description, shards, true);
}

std::unique_ptr<PieceSource> hold_tensors(NamedTensors tensors, std::string description) {
  TensorTable table;
  for (const auto& [name, tensor] : tensors) {
    table[name] = {.dtype = dtype_of(tensor.scalar_type()),
                   .shape = tensor.sizes().vec(),
                   .stretches = {{0, 0, tensor.numel()}}};
  }
  return std::make_unique<Held>(std::move(table), std::move(description), std::move(tensors));
}

std::unique_ptr<PieceSource> read_parts(const CheckpointReader& reader) {
  NamedTensors tensors;
  for (const auto& [part, prefix] : {std::pair(kModelPart, kModelPrefix),
                                     std::pair(kEmaPart, kEmaPrefix),
                                     std::pair(kRandomPart, kRandomPrefix)}) {
    if (reader.has(part)) {
      append(tensors, prefix, reader.tensors(part));
    }
  }
  if (reader.has(kOptimizerPart)) {
    append(tensors, "", state_tensors(reader.value(kOptimizerPart)));
  }
  return hold_tensors(std::move(tensors), "checkpoint " + reader.directory().string());
}

std::unique_ptr<PieceSource> open_safetensors(const std::filesystem::path& file) {
  const SafetensorsHeader header = read_safetensors_header(os::InputFile(file));
  TensorTable table;
  for (const auto& [name, entry] : header.tensors) {
    TensorEntry& known = table[name];
    known.dtype = entry.dtype;
    known.shape = entry.shape;
    known.stretches = {{0, 0, known.elements()}};
  }
  return std::make_unique<Shards>(
      std::move(table), file.string(), std::vector{file}, /*is_cut=*/false);
}

torch::Tensor read_whole(const PieceSource& source, std::string_view name) {
  torch::Tensor tensor = torch::empty(source.shape(name), source.dtype(name));
  source.read(name, 0, tensor);
  return tensor;
}

NamedTensors read_all(const PieceSource& source, std::string_view prefix) {
  NamedTensors tensors;
  for (const std::string& name : source.names()) {
    if (name.starts_with(prefix)) {
      tensors.emplace_back(name.substr(prefix.size()), read_whole(source, name));
    }
  }
  return tensors;
}

}  // namespace lockstep::checkpoint

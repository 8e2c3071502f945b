// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/shard.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/os/output_file.h"
#include "training/checkpoint/describe.h"
#include "training/checkpoint/layout.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The names of safetensors. They are part of the format of checkpoints.
constexpr std::array<std::pair<torch::ScalarType, std::string_view>, 12> kTypes = {{
    {torch::kFloat32, "F32"},
    {torch::kFloat64, "F64"},
    {torch::kFloat16, "F16"},
    {torch::kBFloat16, "BF16"},
    {torch::kInt64, "I64"},
    {torch::kInt32, "I32"},
    {torch::kInt16, "I16"},
    {torch::kInt8, "I8"},
    {torch::kUInt8, "U8"},
    {torch::kBool, "BOOL"},
    {torch::kComplexFloat, "C64"},
    {torch::kComplexDouble, "C128"},
}};

// A shard is a safetensors file. Its entries are one-dimensional pieces of tensors and are named
// NAME@OFFSET, where OFFSET is the position of the first element in the flattened tensor:
//
//   rank 0  shard-00000-of-00002.safetensors   "model.w@0"   F32 [10]
//   rank 1  shard-00001-of-00002.safetensors   "model.w@10"  F32 [22]
//
// The shape of the whole tensor is in the index of the rank and later in manifest.json. A reader
// with another number of workers reads any range of elements from the shards that contain it.

uint64_t bytes_of(const TensorPiece& piece) {
  return static_cast<uint64_t>(piece.values.numel()) * piece.values.element_size();
}

// Wide types first, so that each element is aligned to its size; then by name and offset.
std::vector<const TensorPiece*> in_file_order(const std::vector<TensorPiece>& pieces) {
  std::vector<const TensorPiece*> order;
  order.reserve(pieces.size());
  for (const TensorPiece& piece : pieces) {
    order.push_back(&piece);
  }
  std::ranges::sort(order, [](const TensorPiece* a, const TensorPiece* b) {
    const auto key = [](const TensorPiece* piece) {
      return std::tuple(-static_cast<int64_t>(piece->values.element_size()),
                        std::string_view(piece->name),
                        piece->offset);
    };
    return key(a) < key(b);
  });
  return order;
}

std::string index_json(const TensorTable& table, const ManifestEntry& file) {
  Json pieces = Json::array();
  for (const auto& [name, entry] : table) {
    for (const Stretch& stretch : entry.stretches) {
      pieces.push_back({{"name", name},
                        {"dtype", entry.dtype},
                        {"shape", entry.shape},
                        {"offset", stretch.offset},
                        {"count", stretch.count}});
    }
  }
  return Json{{"version", kFormatVersion},
              {"bytes", file.bytes},
              {"xxh3_64", to_text(file.checksum)},
              {"pieces", pieces}}
      .dump();
}

// Returns after fsync. The checksum is computed from the memory, before any disk can change a byte.
ManifestEntry write_bytes(const std::filesystem::path& file, const Snapshot& snapshot) {
  constexpr size_t kAtOnce = size_t{4} << 20;
  os::OutputFile out(file);
  RunningChecksum sum;
  const auto write = [&](std::string_view bytes) {
    sum.add(bytes.data(), bytes.size());
    out.write(bytes);
  };
  write(snapshot.header());
  for (std::string_view rest = snapshot.data(); !rest.empty();) {
    write(rest.substr(0, kAtOnce));
    rest.remove_prefix(std::min(kAtOnce, rest.size()));
  }
  out.close();
  return {.bytes = out.size(), .checksum = sum.value()};
}

}  // namespace

std::string dtype_of(torch::ScalarType type) {
  const auto* const found =
      std::ranges::find(kTypes, type, &std::pair<torch::ScalarType, std::string_view>::first);
  if (found == kTypes.end()) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot save a tensor of type {}", c10::toString(type)));
  }
  return std::string(found->second);
}

torch::ScalarType type_of(std::string_view dtype, std::string_view tensor) {
  const auto* const found =
      std::ranges::find(kTypes, dtype, &std::pair<torch::ScalarType, std::string_view>::second);
  if (found == kTypes.end()) {
    throw Error(
        ExitCode::Usage,
        fmt::format(
            "cannot read tensor \"{}\": libtorch has no type for its dtype {}", tensor, dtype));
  }
  return found->first;
}

std::vector<TensorPiece> share_of(const std::vector<TensorPiece>& pieces, int rank, int workers) {
  uint64_t total = 0;
  for (const TensorPiece& piece : pieces) {
    total += bytes_of(piece);
  }
  const auto count = static_cast<uint64_t>(workers);
  const uint64_t begin = total * static_cast<uint64_t>(rank) / count;
  const uint64_t end = total * (static_cast<uint64_t>(rank) + 1) / count;
  std::vector<TensorPiece> share;
  uint64_t at = 0;
  for (const TensorPiece& piece : pieces) {
    // An element belongs to the rank whose range contains its first byte. `element` rounds up, so
    // that the ranges of neighbours share no element and leave none out. Tensors without elements
    // belong to rank 0.
    const uint64_t width = piece.values.element_size();
    const auto element = [&](uint64_t byte) {
      const uint64_t first = byte > at ? (byte - at + width - 1) / width : 0;
      return std::min(static_cast<int64_t>(first), piece.values.numel());
    };
    const int64_t from = element(begin);
    const int64_t to = element(end);
    at += bytes_of(piece);
    if (piece.values.numel() == 0 ? rank == 0 : to > from) {
      share.push_back({.name = piece.name,
                       .shape = piece.shape,
                       .offset = piece.offset + from,
                       .values = to - from == piece.values.numel()
                                     ? piece.values
                                     : piece.values.reshape(-1).narrow(0, from, to - from)});
    }
  }
  return share;
}

void Snapshot::take(const std::vector<TensorPiece>& pieces) {
  const torch::NoGradGuard no_grad;
  const std::vector<const TensorPiece*> order = in_file_order(pieces);
  SafetensorsHeader header;
  header.metadata["format"] = "lockstep";
  table_.clear();
  bytes_ = 0;
  for (const TensorPiece* piece : order) {
    const uint64_t bytes = bytes_of(*piece);
    const std::string dtype = dtype_of(piece->values.scalar_type());
    const bool is_new = header.tensors
                            .emplace(fmt::format("{}@{}", piece->name, piece->offset),
                                     SafetensorsEntry{.dtype = dtype,
                                                      .shape = {piece->values.numel()},
                                                      .begin = bytes_,
                                                      .end = bytes_ + bytes})
                            .second;
    if (!is_new) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot save two tensors with the same name, \"{}\"", piece->name));
    }
    bytes_ += bytes;
    TensorEntry& entry = table_[piece->name];
    entry.dtype = dtype;
    entry.shape = piece->shape;
    entry.stretches.push_back({0, piece->offset, piece->values.numel()});
  }
  // Every piece has its place in the buffer before the first is copied: the offsets in the header
  // are those of the loop below, which has the same order.
  header_ = to_text(header);
  if (!buffer_.defined() || static_cast<uint64_t>(buffer_.numel()) < bytes_) {
    buffer_ = torch::Tensor();  // free the old buffer before the allocation of the new one
    buffer_ = torch::empty({static_cast<int64_t>(bytes_)}, torch::kUInt8);
  }
  uint8_t* to = buffer_.data_ptr<uint8_t>();
  for (const TensorPiece* piece : order) {
    if (piece->values.numel() > 0) {
      torch::from_blob(to, {piece->values.numel()}, piece->values.scalar_type())
          .copy_(piece->values.reshape(-1));
    }
    to += bytes_of(*piece);
  }
}

std::string_view Snapshot::data() const {
  if (bytes_ == 0) {
    return {};
  }
  return {static_cast<const char*>(buffer_.data_ptr()), bytes_};
}

void write_shard(const ShardedSave& save, const Snapshot& snapshot) {
  const std::filesystem::path shard = save.partial / shard_name(save.rank, save.writers);
  const std::filesystem::path index = save.partial / index_name(save.rank, save.writers);
  try {
    const ManifestEntry file = write_bytes(shard, snapshot);
    os::atomic_write(index, index_json(snapshot.table(), file));
  } catch (Error& error) {
    explain_space(error, save.root, snapshot.bytes());
    try {
      os::remove_tree(shard);  // makes room for the index on a full disk
      os::replace_file(index, Json{{"failed", error.sentence()}}.dump());
    } catch (const Error&) {
      // Then the reason reaches rank 0 with the exception of this worker, or rank 0 times out.
    }
    throw;
  }
}

}  // namespace lockstep::checkpoint

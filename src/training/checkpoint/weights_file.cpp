// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/weights_file.h"

#include <algorithm>
#include <caffe2/serialize/inline_container.h>
#include <exception>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "common/base/product.h"
#include "common/os/output_file.h"
#include "lockstep/error.h"
#include "training/checkpoint/pt_file.h"
#include "training/checkpoint/safetensors.h"
#include "training/checkpoint/shard.h"

namespace lockstep::checkpoint {
namespace {

uint64_t bytes_of(const PieceSource& source, const WeightsItem& item) {
  const auto width = static_cast<int64_t>(c10::elementSize(item.type));
  const auto bytes = find_product(source.shape(item.from), width);
  if (!bytes) {
    throw Error(ExitCode::Io,
                fmt::format("cannot convert tensor \"{}\": its size exceeds 63 bits", item.from));
  }
  return static_cast<uint64_t>(*bytes);
}

// Reads tensors one after the other into one buffer of the largest size: converting a checkpoint
// needs the memory of one tensor, not of the model.
class OneByOne {
 public:
  OneByOne(const PieceSource& source,
           const std::vector<WeightsItem>& items,
           const WriteProgress& progress)
      : source_(source), progress_(progress) {
    for (const WeightsItem& item : items) {
      all_ += bytes_of(source, item);
      largest_ = std::max(largest_, bytes_of(source, item));
    }
    memory_ = torch::empty({static_cast<int64_t>(largest_)}, torch::kUInt8);
  }

  // The result is valid until the next call.
  std::string_view read(const WeightsItem& item) {
    const uint64_t bytes = bytes_of(source_, item);
    if (bytes > 0) {
      torch::Tensor tensor =
          torch::from_blob(memory_.data_ptr(), source_.shape(item.from), item.type);
      source_.read(item.from, 0, tensor);
    }
    done_ += bytes;
    if (progress_) {
      progress_(done_, all_);
    }
    return {static_cast<const char*>(memory_.data_ptr()), bytes};
  }

 private:
  const PieceSource& source_;
  const WriteProgress& progress_;
  uint64_t all_ = 0;
  uint64_t done_ = 0;
  uint64_t largest_ = 0;
  torch::Tensor memory_;
};

// A file that is written under a temporary name and renamed when it is complete.
class Replacement {
 public:
  explicit Replacement(std::filesystem::path target)
      : target_(std::move(target)),
        out_(target_.parent_path() / fmt::format(".{}.partial", target_.filename().string())) {}
  ~Replacement() {
    if (!out_.path().empty() && !is_done_) {
      std::error_code ignored;
      std::filesystem::remove(out_.path(), ignored);
    }
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::string_view bytes) { out_.write(bytes); }

  void finish() {
    out_.close();
    os::rename_path(out_.path(), target_);
    is_done_ = true;
    const std::filesystem::path parent = target_.parent_path();
    os::sync_directory(parent.empty() ? "." : parent);
  }

 private:
  std::filesystem::path target_;
  os::OutputFile out_;
  bool is_done_ = false;
};

}  // namespace

std::vector<WeightsItem> items_below(const PieceSource& source, std::string_view prefix) {
  std::vector<WeightsItem> items;
  for (const std::string& name : source.names()) {
    if (name.starts_with(prefix)) {
      items.push_back({name, name.substr(prefix.size()), source.dtype(name)});
    }
  }
  return items;
}

void write_pt(const std::filesystem::path& file,
              const PieceSource& source,
              const std::vector<WeightsItem>& items,
              const WriteProgress& progress) {
  NamedTensors shapes;
  shapes.reserve(items.size());
  for (const WeightsItem& item : items) {
    // The pickle needs only type and shape. The memory is never touched, so the kernel provides
    // none.
    shapes.emplace_back(item.name, torch::empty(source.shape(item.from), item.type));
  }
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, size_t count) { pickle.append(bytes, count); },
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(as_plain_value(shapes));
  pickler.stop();

  Replacement out(file);
  // The callback hides failures from PyTorchStreamWriter: its destructor would try to write again
  // and throw. check() reports them instead.
  std::exception_ptr failure;
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* bytes, size_t count) {
    try {
      if (!failure) {
        out.write({static_cast<const char*>(bytes), count});
      }
    } catch (const Error&) {
      failure = std::current_exception();
    }
    return count;
  });
  const auto check = [&failure] {
    if (failure) {
      std::rethrow_exception(failure);
    }
  };
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  OneByOne tensors(source, items, progress);
  for (size_t i = 0; i < items.size(); ++i) {
    check();
    const std::string_view bytes = tensors.read(items[i]);
    // The pickler numbers storages in the order in which it meets them, and each tensor has its
    // own.
    archive.writeRecord(fmt::format("data/{}", i), bytes.data(), bytes.size());
  }
  archive.writeEndOfFile();
  check();
  out.finish();
}

void write_safetensors(const std::filesystem::path& file,
                       const PieceSource& source,
                       const std::vector<WeightsItem>& items,
                       const WriteProgress& progress) {
  // Wide types first, so that each element is aligned to its size; then by name.
  std::vector<WeightsItem> order = items;
  std::ranges::sort(order, [](const WeightsItem& a, const WeightsItem& b) {
    const size_t wide = c10::elementSize(a.type);
    const size_t other = c10::elementSize(b.type);
    return wide != other ? wide > other : a.name < b.name;
  });
  SafetensorsHeader header;
  header.metadata["format"] = "pt";
  uint64_t at = 0;
  for (const WeightsItem& item : order) {
    const uint64_t bytes = bytes_of(source, item);
    header.tensors[item.name] = {.dtype = dtype_of(item.type),
                                 .shape = source.shape(item.from),
                                 .begin = at,
                                 .end = at + bytes};
    at += bytes;
  }
  Replacement out(file);
  out.write(to_text(header));
  OneByOne tensors(source, order, progress);
  for (const WeightsItem& item : order) {
    out.write(tensors.read(item));
  }
  out.finish();
}

}  // namespace lockstep::checkpoint

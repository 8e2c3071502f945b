// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/pt_file.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <map>
#include <set>
#include <torch/csrc/jit/serialization/pickler.h>
#include <tuple>

#include "common/os/files.h"
#include "training/checkpoint/pickle_reader.h"
#include "training/checkpoint/piece_sources.h"
#include "training/checkpoint/zip_archive.h"

namespace lockstep::checkpoint {
namespace {

// A file of torch.save is a zip archive whose records are stored without compression:
//
//   NAME/data.pkl     pickle of the value; a tensor is a call with the key of its storage
//   NAME/byteorder    "little"; absent in older files
//   NAME/data/0       bytes of storage 0, aligned to 64 bytes so that the file can be mapped
//   NAME/data/1       ...
//   NAME/version
//
// NAME is the name of the file that was written, without extension. The pickle contains no tensor
// data, so its size is limited: 32 MiB are hundreds of thousands of tensors.
constexpr uint64_t kMaxPickleBytes = uint64_t{32} << 20;

// Converts a value so that its pickle contains only plain Python: lists and dicts without
// TorchScript types; tensors detached, dense and on the CPU. A tensor that is part of a larger
// storage is copied, because a file contains entire storages. Several names of one tensor still
// share one storage.
class PlainCopy {
 public:
  c10::IValue copy(const c10::IValue& value) {
    if (value.isTensor()) {
      return copy_tensor(value.toTensor());
    }
    if (value.isList()) {
      c10::impl::GenericList list(c10::AnyType::get());
      for (const c10::IValue& element : value.toListRef()) {
        list.push_back(copy(element));
      }
      return list;
    }
    if (value.isTuple()) {
      std::vector<c10::IValue> elements;
      for (const c10::IValue& element : value.toTupleRef().elements()) {
        elements.push_back(copy(element));
      }
      return c10::ivalue::Tuple::create(std::move(elements));
    }
    if (value.isGenericDict()) {
      c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
      for (const auto& entry : value.toGenericDict()) {
        dict.insert(entry.key(), copy(entry.value()));
      }
      return dict;
    }
    if (value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString()) {
      return value;
    }
    throw Error(ExitCode::Usage, fmt::format("cannot save a value of type {}", value.tagKind()))
        .hint("save only tensors, numbers, strings, None, and lists, tuples and dicts of these");
  }

  // The total size of all storages.
  size_t bytes() const { return bytes_; }

 private:
  using Identity =
      std::tuple<const void*, torch::ScalarType, std::vector<int64_t>, std::vector<int64_t>>;

  torch::Tensor copy_tensor(const torch::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != torch::kStrided || tensor.is_quantized() ||
        tensor.is_meta()) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot save a {} tensor: only dense tensors are supported",
                              tensor.defined() ? tensor.toString() : "undefined"));
    }
    // Tied weights are one tensor under two names. Address, type, shape and strides identify it,
    // and both names get the same copy. Tensors without elements have no address of their own.
    const Identity identity = {
        tensor.data_ptr(), tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec()};
    const auto known = copies_.find(identity);
    if (known != copies_.end() && tensor.numel() > 0) {
      return known->second;
    }
    torch::Tensor plain = tensor.detach().resolve_conj().resolve_neg().to(torch::kCPU).contiguous();
    if (plain.storage().nbytes() != plain.nbytes()) {
      plain = plain.clone();
    }
    bytes_ += plain.nbytes();
    copies_.insert_or_assign(identity, plain);
    return plain;
  }

  std::map<Identity, torch::Tensor> copies_;
  size_t bytes_ = 0;
};

// TorchScript archives are also zip files with a pickle, but contain program code.
void require_plain_archive(const ZipArchive& archive, const std::string& prefix) {
  if (archive.records().contains(prefix + "constants.pkl")) {
    throw Error(ExitCode::Io,
                fmt::format("cannot read {}: it is a TorchScript module, not a state dict",
                            archive.path().string()))
        .hint("save model.state_dict() with torch.save, or use lockstep::save_weights");
  }
  const auto order = archive.records().find(prefix + "byteorder");
  if (order == archive.records().end()) {
    return;
  }
  std::string text(std::min<uint64_t>(order->second.bytes, 16), '\0');
  if (text.size() == order->second.bytes) {
    archive.read(order->second, text.data());
  }
  if (text != "little") {
    refuse_at(archive.path(), order->second.offset, "its byte order is not little-endian");
  }
}

// Reads each storage of an archive only once, even if several tensors share it.
class StorageReader {
 public:
  StorageReader(const ZipArchive& archive, std::string prefix)
      : archive_(archive), prefix_(std::move(prefix)) {}

  torch::Tensor operator()(const std::string& key, torch::ScalarType type, int64_t elements) {
    const auto known = storages_.find(key);
    if (known != storages_.end()) {
      if (known->second.scalar_type() != type || known->second.numel() != elements) {
        refuse_pickle(fmt::format("storage \"{}\" is used with two types or sizes", key));
      }
      return known->second;
    }
    const auto record = archive_.records().find(prefix_ + "data/" + key);
    if (record == archive_.records().end()) {
      refuse_pickle(fmt::format("storage \"{}\" is missing", key));
    }
    // The size that the pickle claims must be that of the record, before anything is allocated.
    int64_t bytes = 0;
    const auto width = static_cast<int64_t>(c10::elementSize(type));
    if (elements < 0 || __builtin_mul_overflow(elements, width, &bytes) ||
        static_cast<uint64_t>(bytes) != record->second.bytes) {
      refuse_pickle(
          fmt::format("storage \"{}\" should have {} elements of {} bytes and has {} bytes",
                      key,
                      elements,
                      width,
                      record->second.bytes));
    }
    torch::Tensor storage = torch::empty({elements}, type);
    archive_.read(record->second, storage.data_ptr());
    return storages_.emplace(key, storage).first->second;
  }

 private:
  const ZipArchive& archive_;
  std::string prefix_;
  std::map<std::string, torch::Tensor> storages_;
};

std::string kind_of(const c10::IValue& value) {
  return value.isGenericDict() ? "a dict" : fmt::format("of type {}", value.tagKind());
}

[[noreturn]] void refuse_entry(const std::filesystem::path& file,
                               std::string_view why,
                               const c10::IValue& root) {
  Error error(ExitCode::Usage, fmt::format("cannot load weights from {}: {}", file.string(), why));
  if (root.isGenericDict()) {
    for (const auto& entry : root.toGenericDict()) {
      if (entry.key().isString() && entry.value().isGenericDict()) {
        error.hint(
            fmt::format("select the entry \"{}\", which is a dict", entry.key().toStringRef()));
      }
    }
  }
  throw error;
}

}  // namespace

// The pickler collects the tensors in the order in which it meets their storages and numbers them
// from 0; the records below must have the same numbers.
std::string to_pt(const c10::IValue& value) {
  PlainCopy plain;
  const c10::IValue copy = plain.copy(value);
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, size_t count) { pickle.append(bytes, count); },
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(copy);
  pickler.stop();

  std::string file;
  file.reserve(plain.bytes() + 2 * pickle.size() + 256 * pickler.tensorData().size() + 4096);
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* bytes, size_t count) {
    file.append(static_cast<const char*>(bytes), count);
    return count;
  });
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  size_t key = 0;
  for (const torch::Tensor& tensor : pickler.tensorData()) {
    archive.writeRecord(
        fmt::format("data/{}", key++), tensor.storage().data(), tensor.storage().nbytes());
  }
  archive.writeEndOfFile();
  return file;
}

c10::IValue as_value(const NamedTensors& tensors) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  for (const auto& [name, tensor] : tensors) {
    if (!dict.insert(name, tensor).second) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot save two tensors with the same name, \"{}\"", name));
    }
  }
  return dict;
}

c10::IValue as_plain_value(const NamedTensors& tensors) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  for (const auto& [name, tensor] : tensors) {
    dict.insert(name, tensor);
  }
  return dict;
}

}  // namespace lockstep::checkpoint

namespace lockstep {

void save_value(const std::filesystem::path& file, const c10::IValue& value) {
  os::atomic_write(file, checkpoint::to_pt(value));
}

c10::IValue load_value(const std::filesystem::path& file) {
  const checkpoint::ZipArchive archive(file);
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& [name, record] : archive.records()) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos || name.substr(slash + 1) != kPickle) {
      continue;
    }
    const std::string prefix = name.substr(0, slash + 1);
    checkpoint::require_plain_archive(archive, prefix);
    if (record.bytes > checkpoint::kMaxPickleBytes) {
      checkpoint::refuse_at(file, record.offset, "its pickle has more than 32 MiB");
    }
    std::string pickle(record.bytes, '\0');
    archive.read(record, pickle.data());
    return checkpoint::PickleReader(
               pickle, file, record.offset, checkpoint::StorageReader(archive, prefix))
        .read();
  }
  checkpoint::refuse_at(file, 0, "it is not a file of torch.save (no record data.pkl)");
}

void save_weights(const std::filesystem::path& file, const NamedTensors& weights) {
  save_value(file, checkpoint::as_value(weights));
}

NamedTensors load_weights(const std::filesystem::path& file, std::string_view entry) {
  if (file.extension() == ".safetensors") {
    if (!entry.empty()) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot load entry \"{}\" of {}: a .safetensors file has no "
                              "entries",
                              entry,
                              file.string()));
    }
    return checkpoint::read_all(*checkpoint::open_safetensors(file), "");
  }
  const c10::IValue root = load_value(file);
  c10::IValue weights = root;
  if (!entry.empty()) {
    const bool found = root.isGenericDict() && root.toGenericDict().contains(std::string(entry));
    if (!found) {
      checkpoint::refuse_entry(file, fmt::format("it has no entry \"{}\"", entry), root);
    }
    weights = root.toGenericDict().at(std::string(entry));
  }
  if (!weights.isGenericDict()) {
    checkpoint::refuse_entry(
        file, fmt::format("it is {}, not a dict", checkpoint::kind_of(weights)), root);
  }
  NamedTensors tensors;
  for (const auto& item : weights.toGenericDict()) {
    if (!item.key().isString() || !item.value().isTensor()) {
      checkpoint::refuse_entry(file,
                               item.key().isString()
                                   ? fmt::format("its entry \"{}\" is {}, not a tensor",
                                                 item.key().toStringRef(),
                                                 checkpoint::kind_of(item.value()))
                                   : "the keys of its dict are not strings",
                               root);
    }
    tensors.emplace_back(item.key().toStringRef(), item.value().toTensor());
  }
  return tensors;
}

}  // namespace lockstep

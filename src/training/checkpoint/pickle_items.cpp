// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/pickle_items.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/product.h"

namespace lockstep::checkpoint {
namespace {

// Destruction of a nested value recurses: a small file with deep lists would overflow the stack.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxDimensions = 64;

// The names that torch.save uses for a state dict. All of them are functions without side effects.
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kSize = "torch.Size";

c10::TypePtr any() {
  return c10::AnyType::get();
}

const std::unordered_map<std::string_view, torch::ScalarType>& storage_types() {
  static const std::unordered_map<std::string_view, torch::ScalarType> types = {
      {"torch.DoubleStorage", torch::kDouble},
      {"torch.FloatStorage", torch::kFloat},
      {"torch.HalfStorage", torch::kHalf},
      {"torch.BFloat16Storage", torch::kBFloat16},
      {"torch.LongStorage", torch::kLong},
      {"torch.IntStorage", torch::kInt},
      {"torch.ShortStorage", torch::kShort},
      {"torch.CharStorage", torch::kChar},
      {"torch.ByteStorage", torch::kByte},
      {"torch.BoolStorage", torch::kBool},
      {"torch.ComplexDoubleStorage", torch::kComplexDouble},
      {"torch.ComplexFloatStorage", torch::kComplexFloat},
  };
  return types;
}

// c10::Dict doubles its table until the longest chain of colliding keys fits its logarithm: a few
// keys with equal hashes take all memory. Therefore keys are strings, of which only a few may have
// the same hash, and integers of a range that is too small for long chains. Optimizers number
// parameters from 0. A NaN differs from itself and can be added any number of times.
void require_key(PickleItem::Extent& dict, const c10::IValue& key) {
  constexpr int64_t kMaxKey = 1 << 20;
  constexpr int kMaxEqualHashes = 8;
  if (key.isInt() || key.isBool()) {
    if (key.isInt() && (key.toInt() < -kMaxKey || key.toInt() > kMaxKey)) {
      refuse_pickle(fmt::format("a dict has the key {}, which is out of range", key.toInt()));
    }
    return;
  }
  if (!key.isString()) {
    refuse_pickle("a dict has a key that is neither a string nor an integer");
  }
  if (++dict.hashes[std::hash<std::string>()(key.toStringRef())] > kMaxEqualHashes) {
    refuse_pickle("a dict repeats keys, or has keys with equal hashes");
  }
}

// Adds the extent of `child` to that of `parent`. Only a list or dict that is not yet part of
// another one can grow. Therefore no container can contain itself, and the extent of a child is
// final when it is added. The pickles of Python satisfy this: they complete each child before they
// add it.
void place(PickleItem::Extent& parent, const PickleItem& child) {
  if (child.extent != nullptr) {
    child.extent->placed = true;
    parent.depth = std::max(parent.depth, child.extent->depth + 1);
  }
  if (parent.placed) {
    refuse_pickle("a list or dict contains itself, or grows after it was added to another");
  }
  parent.items += child.extent == nullptr ? 1 : child.extent->items;
  if (parent.depth > kMaxDepth) {
    refuse_pickle(fmt::format("lists and dicts are nested more than {} deep", kMaxDepth));
  }
  if (parent.items > kMaxPickleItems) {
    refuse_pickle(fmt::format("the pickle contains more than {} items", kMaxPickleItems));
  }
}

int64_t integer(const PickleItem& item) {
  if (item.kind != PickleItem::Kind::Value || !item.value.isInt()) {
    refuse_pickle("a size or offset of a tensor is not an integer");
  }
  return item.value.toInt();
}

std::vector<int64_t> extents(const PickleItem& tuple) {
  if (tuple.elements == nullptr || tuple.elements->size() > kMaxDimensions) {
    refuse_pickle("the shape of a tensor is malformed");
  }
  std::vector<int64_t> values;
  for (const PickleItem& element : *tuple.elements) {
    values.push_back(integer(element));
    if (values.back() < 0) {
      refuse_pickle("the shape of a tensor has a negative number");
    }
  }
  return values;
}

// Arguments: (storage, offset, sizes, strides, requires_grad, hooks). The first and the last
// element must be inside the storage; the last is at offset + sum of (size - 1) * stride.
c10::IValue tensor(const std::vector<PickleItem>& arguments) {
  if (arguments.size() < 4 || arguments[0].kind != PickleItem::Kind::Storage) {
    refuse_pickle("a tensor is malformed");
  }
  const torch::Tensor& data = arguments[0].data;
  const std::vector<int64_t> sizes = extents(arguments[2]);
  const std::vector<int64_t> strides = extents(arguments[3]);
  const int64_t offset = integer(arguments[1]);
  if (sizes.size() != strides.size() || offset < 0 || offset > data.numel()) {
    refuse_pickle("a tensor is malformed");
  }
  const auto elements = find_product(sizes);
  int64_t last = offset;
  bool fits = elements.has_value();
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    fits = fits &&
           !__builtin_mul_overflow(std::max<int64_t>(sizes[i] - 1, 0), strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  if (!fits || (*elements > 0 && last >= data.numel())) {
    refuse_pickle("a tensor is outside its storage");
  }
  // With a stride of 0, a file of 400 bytes could describe a tensor of any size, which would be
  // written out or copied element by element.
  if (*elements > data.numel()) {
    refuse_pickle("a tensor has more elements than its storage");
  }
  return data.as_strided(sizes, strides, offset);
}

}  // namespace

void refuse_pickle(std::string why) {
  throw PickleFault{std::move(why)};
}

PickleItem new_list() {
  return {.value = c10::impl::GenericList(any()), .extent = std::make_shared<PickleItem::Extent>()};
}

PickleItem new_dict() {
  return {.value = c10::impl::GenericDict(any(), any()),
          .extent = std::make_shared<PickleItem::Extent>()};
}

// A tuple may contain classes and storages: the arguments of REDUCE and the ids of BINPERSID are
// tuples. It keeps its items in `elements`, and has a `value` only if all of them have one.
PickleItem new_tuple(std::vector<PickleItem> elements) {
  PickleItem tuple = {.kind = PickleItem::Kind::Tuple,
                      .extent = std::make_shared<PickleItem::Extent>()};
  std::vector<c10::IValue> values;
  for (const PickleItem& element : elements) {
    place(*tuple.extent, element);
    const bool is_plain = element.kind == PickleItem::Kind::Value ||
                          (element.kind == PickleItem::Kind::Tuple && element.value.isTuple());
    if (is_plain) {
      values.push_back(element.value);
    }
  }
  if (values.size() == elements.size()) {
    tuple.value = c10::ivalue::Tuple::create(std::move(values));
  }
  tuple.elements = std::make_shared<const std::vector<PickleItem>>(std::move(elements));
  return tuple;
}

void append(const PickleItem& list, const std::vector<PickleItem>& items) {
  if (!list.value.isList()) {
    refuse_pickle("the pickle appends to something that is not a list");
  }
  auto values = list.value.toList();
  for (const PickleItem& item : items) {
    place(*list.extent, item);
    values.push_back(plain(item));
  }
}

void set_items(const PickleItem& dict, const std::vector<PickleItem>& items) {
  if (!dict.value.isGenericDict() || items.size() % 2 != 0) {
    refuse_pickle("the pickle sets items of something that is not a dict");
  }
  auto values = dict.value.toGenericDict();
  for (size_t i = 0; i < items.size(); i += 2) {
    const c10::IValue& key = plain(items[i]);
    require_key(*dict.extent, key);
    place(*dict.extent, items[i + 1]);
    values.insert_or_assign(key, plain(items[i + 1]));
  }
}

const c10::IValue& plain(const PickleItem& item) {
  switch (item.kind) {
    case PickleItem::Kind::Global:
      refuse_pickle(
          fmt::format("it contains {} itself, not only tensors and plain values", item.name));
    case PickleItem::Kind::Mark:
    case PickleItem::Kind::Storage:
      refuse_pickle("it contains a bare storage, not only tensors and plain values");
    case PickleItem::Kind::Tuple:
      if (!item.value.isTuple()) {
        refuse_pickle("it contains a tuple of Python objects, not only tensors and plain values");
      }
      break;
    case PickleItem::Kind::Value:
      break;
  }
  return item.value;
}

PickleItem global(std::string name) {
  if (!storage_types().contains(name) && name != kOrderedDict && name != kRebuildTensor &&
      name != kRebuildParameter && name != kSize) {
    refuse_pickle(
        fmt::format("it contains the Python object {}, not only tensors and plain values", name));
  }
  return {.kind = PickleItem::Kind::Global, .name = std::move(name)};
}

// The id is ("storage", torch.FloatStorage, key, device, elements). The device is ignored: all
// tensors are loaded to the CPU.
PickleItem storage(const PickleItem& identity, const LoadStorage& load) {
  const auto* parts = identity.elements.get();
  if (parts == nullptr || parts->size() != 5 || !parts->at(0).value.isString() ||
      parts->at(0).value.toStringRef() != "storage" ||
      parts->at(1).kind != PickleItem::Kind::Global || !parts->at(2).value.isString()) {
    refuse_pickle("the name of a storage is malformed");
  }
  const auto type = storage_types().find(parts->at(1).name);
  if (type == storage_types().end()) {
    refuse_pickle("the name of a storage is malformed");
  }
  return {.kind = PickleItem::Kind::Storage,
          .data = load(parts->at(2).value.toStringRef(), type->second, integer(parts->at(4)))};
}

// The equivalents of the accepted functions. A parameter is loaded as its tensor: requires_grad is
// a property of the model, not of the file.
PickleItem call(const PickleItem& function, const PickleItem& arguments) {
  if (function.kind != PickleItem::Kind::Global || arguments.elements == nullptr) {
    refuse_pickle("the pickle calls something that is not a function");
  }
  const std::vector<PickleItem>& given = *arguments.elements;
  if (function.name == kOrderedDict && given.empty()) {
    return new_dict();
  }
  if (function.name == kRebuildTensor) {
    return {.value = tensor(given)};
  }
  if (function.name == kRebuildParameter && !given.empty() && given[0].value.isTensor()) {
    return given[0];
  }
  if (function.name == kSize && given.size() == 1 && given[0].elements != nullptr) {
    return given[0];
  }
  refuse_pickle(fmt::format("the pickle calls {} with unexpected arguments", function.name));
}

}  // namespace lockstep::checkpoint

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/types.h>
#include <unordered_map>
#include <vector>

// The items on the stack of a pickle reader, and the operations on them.
namespace lockstep::checkpoint {

// Limits the memory that a file can make its reader use.
inline constexpr int64_t kMaxPickleItems = int64_t{4} << 20;

// The reason to reject a pickle; the reader turns it into an Error with file and byte.
struct PickleFault {
  std::string why;
};

[[noreturn]] void refuse_pickle(std::string why);

struct PickleItem {
  enum class Kind { Mark, Value, Tuple, Global, Storage };
  // Depth and number of items of a container, and whether it is already part of another one.
  struct Extent {
    int depth = 1;
    int64_t items = 1;
    bool placed = false;
    std::unordered_map<size_t, int> hashes = {};  // keys of a dict with each hash
  };

  Kind kind = Kind::Value;
  c10::IValue value = {};   // of a Value, and of a Tuple that contains only values
  std::string name = {};    // of a Global: "collections.OrderedDict"
  torch::Tensor data = {};  // of a Storage, one-dimensional
  std::shared_ptr<const std::vector<PickleItem>> elements = {};  // of a Tuple
  std::shared_ptr<Extent> extent = {};                           // of a list, dict or Tuple
};

// Loads the storage `key` as a one-dimensional tensor.
using LoadStorage =
    std::function<torch::Tensor(const std::string& key, torch::ScalarType type, int64_t elements)>;

PickleItem new_list();
PickleItem new_dict();
PickleItem new_tuple(std::vector<PickleItem> elements);
void append(const PickleItem& list, const std::vector<PickleItem>& items);
// `items` alternates keys and values.
void set_items(const PickleItem& dict, const std::vector<PickleItem>& items);

// The item as a value; rejects anything else, such as a Python class.
const c10::IValue& plain(const PickleItem& item);

// One of the few Python names that torch.save uses; rejects all others.
PickleItem global(std::string name);

// The storage that a persistent id refers to.
PickleItem storage(const PickleItem& identity, const LoadStorage& load);

// The result of a call of one of these names.
PickleItem call(const PickleItem& function, const PickleItem& arguments);

}  // namespace lockstep::checkpoint

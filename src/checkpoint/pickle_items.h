// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/torch.h>
#include <vector>

// What lies on the stack while a pickle is read, and the few things that a pickle may do with it.
namespace lockstep::checkpoint {

// Bounds what a file can make its reader use.
inline constexpr int64_t kMaxPickleItems = int64_t{4} << 20;

// Why a pickle is refused; its reader makes an Error of it that names file and byte.
struct PickleFault {
  std::string why;
};

[[noreturn]] void refuse_pickle(std::string why);

struct PickleItem {
  enum class Kind { Mark, Value, Tuple, Global, Storage };
  // How much hangs on a list, dict or tuple, and whether it hangs on another one itself.
  struct Extent {
    int depth = 1;
    int64_t items = 1;
    bool placed = false;
  };

  Kind kind = Kind::Value;
  c10::IValue value = {};   // of a Value, and of a Tuple of nothing but values
  std::string name = {};    // of a Global: "collections.OrderedDict"
  torch::Tensor data = {};  // of a Storage, one-dimensional
  std::shared_ptr<const std::vector<PickleItem>> elements = {};  // of a Tuple
  std::shared_ptr<Extent> extent = {};                           // of a list, dict or Tuple
};

// The one-dimensional tensor behind a storage.
using LoadStorage =
    std::function<torch::Tensor(const std::string& key, torch::ScalarType type, int64_t elements)>;

PickleItem new_list();
PickleItem new_dict();
PickleItem new_tuple(std::vector<PickleItem> elements);
void append(const PickleItem& list, const std::vector<PickleItem>& items);
// Key, value, key, value ...
void set_items(const PickleItem& dict, const std::vector<PickleItem>& items);

// The item as a value; refuses what is none, such as a Python class.
const c10::IValue& plain(const PickleItem& item);

// One of the few Python names that torch.save uses; all others are refused here already.
PickleItem global(std::string name);

// What a persistent id stands for.
PickleItem storage(const PickleItem& identity, const LoadStorage& load);

// The result of a function among these names.
PickleItem call(const PickleItem& function, const PickleItem& arguments);

}  // namespace lockstep::checkpoint

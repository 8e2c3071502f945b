// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::comm {
namespace {

// `into` may be `a`; the compiler vectorises all three loops.
template <typename T>
void reduce_typed(T* into, const T* a, const T* b, size_t count, Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      for (size_t i = 0; i < count; ++i) {
        into[i] = static_cast<T>(a[i] + b[i]);
      }
      return;
    case Reduction::Max:
      for (size_t i = 0; i < count; ++i) {
        into[i] = std::max(a[i], b[i]);
      }
      return;
    case Reduction::Min:
      for (size_t i = 0; i < count; ++i) {
        into[i] = std::min(a[i], b[i]);
      }
      return;
  }
}

template <typename T>
void reduce_as(void* into, const void* a, const void* b, size_t count, Reduction reduction) {
  reduce_typed(
      static_cast<T*>(into), static_cast<const T*>(a), static_cast<const T*>(b), count, reduction);
}

}  // namespace

void reduce_pair(void* into,
                 const void* a,
                 const void* b,
                 size_t count,
                 torch::ScalarType type,
                 Reduction reduction) {
  switch (type) {
    case torch::kFloat32:
      return reduce_as<float>(into, a, b, count, reduction);
    case torch::kFloat64:
      return reduce_as<double>(into, a, b, count, reduction);
    case torch::kInt32:
      return reduce_as<int32_t>(into, a, b, count, reduction);
    case torch::kInt64:
      return reduce_as<int64_t>(into, a, b, count, reduction);
    case torch::kUInt8:
      return reduce_as<uint8_t>(into, a, b, count, reduction);
    default:
      LOCKSTEP_CHECK(false && "a type that Communicator does not let through");
  }
}

void reduce_into(
    void* into, const void* from, size_t count, torch::ScalarType type, Reduction reduction) {
  reduce_pair(into, into, from, count, type, reduction);
}

}  // namespace lockstep::comm

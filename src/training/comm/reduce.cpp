// SPDX-License-Identifier: Apache-2.0
#include "training/comm/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "common/base/check.h"

// Each iteration of the loops below reads and writes one index only. Equal pointers are therefore
// harmless, and the compiler may vectorize.
#if defined(__clang__)
#define LOCKSTEP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace lockstep::comm {
namespace {

// A block of partial sums fits into the L1 cache.
constexpr size_t kBlock = 512;

template <typename T>
using SumOf =
    std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

template <typename T, typename Combine>
void combine_pair(T* into, const T* a, const T* b, size_t count, Combine combine) {
  using Sum = SumOf<T>;
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    into[i] = static_cast<T>(combine(static_cast<Sum>(a[i]), static_cast<Sum>(b[i])));
  }
}

// 16-bit values are added up in float32 and rounded once. All sources of a block are added before
// the next block, so that the partial sums stay in the cache. `into` may be one of the sources: a
// block is written after all its sources were read.
template <typename T, typename Combine>
void combine_block(
    T* into, std::span<const void* const> from, size_t begin, size_t count, Combine combine) {
  using Sum = SumOf<T>;
  std::array<Sum, kBlock> sums;
  const T* first = static_cast<const T*>(from[0]) + begin;
  for (size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<Sum>(first[i]);
  }
  for (const void* source : from.subspan(1)) {
    const T* next = static_cast<const T*>(source) + begin;
    for (size_t i = 0; i < count; ++i) {
      sums[i] = combine(sums[i], static_cast<Sum>(next[i]));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    into[begin + i] = static_cast<T>(sums[i]);
  }
}

template <typename T, typename Combine>
void combine_all(void* into, std::span<const void* const> from, size_t count, Combine combine) {
  T* out = static_cast<T*>(into);
  if (from.size() == 2) {
    combine_pair(
        out, static_cast<const T*>(from[0]), static_cast<const T*>(from[1]), count, combine);
    return;
  }
  for (size_t begin = 0; begin < count; begin += kBlock) {
    combine_block(out, from, begin, std::min(kBlock, count - begin), combine);
  }
}

template <typename T>
void reduce_as(void* into, std::span<const void* const> from, size_t count, Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      return combine_all<T>(into, from, count, Add{});
    case Reduction::Max:
      return combine_all<T>(into, from, count, Maximum{});
    case Reduction::Min:
      return combine_all<T>(into, from, count, Minimum{});
  }
}

}  // namespace

void reduce_all(void* into,
                std::span<const void* const> from,
                size_t count,
                torch::ScalarType type,
                Reduction reduction) {
  switch (type) {
    case torch::kFloat32:
      return reduce_as<float>(into, from, count, reduction);
    case torch::kFloat64:
      return reduce_as<double>(into, from, count, reduction);
    case torch::kInt32:
      return reduce_as<int32_t>(into, from, count, reduction);
    case torch::kInt64:
      return reduce_as<int64_t>(into, from, count, reduction);
    case torch::kUInt8:
      return reduce_as<uint8_t>(into, from, count, reduction);
    case torch::kHalf:
      return reduce_as<c10::Half>(into, from, count, reduction);
    case torch::kBFloat16:
      return reduce_as<c10::BFloat16>(into, from, count, reduction);
    default:
      LOCKSTEP_CHECK(false && "a type that Communicator does not let through");
  }
}

}  // namespace lockstep::comm

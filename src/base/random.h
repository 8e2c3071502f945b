// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// The random numbers of data: SplitMix64 (Steele, Lea, Flood 2014; the constants of
// java.util.SplittableRandom). Part of the format of a run: the order of samples must not change
// with the platform, the standard library or libtorch.
class Random {
 public:
  // The sequences of two (seed, stream) pairs have nothing to do with each other.
  Random(uint64_t seed, uint64_t stream) : state_(mix(seed + kStep) ^ mix(mix(stream))) {}

  uint64_t next() { return mix(state_ += kStep); }

  // 0 up to, not including, `bound`, each equally likely; `bound` is at least 1.
  uint64_t below(uint64_t bound) {
    // 2^64 modulo bound: values below it would make the small results a little more likely.
    const uint64_t surplus = (0 - bound) % bound;
    uint64_t value = next();
    while (value < surplus) {
      value = next();
    }
    return value % bound;
  }

  // `least` up to and including `most`.
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least) + 1));
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

  uint64_t state_;
};

// 0 ... size - 1 in random order: Fisher and Yates, from the back.
std::vector<int64_t> permutation(int64_t size, Random random);

}  // namespace lockstep

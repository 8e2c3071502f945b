// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// Random numbers for data order: SplitMix64 (Steele, Lea, Flood 2014; constants of
// java.util.SplittableRandom). They are part of the format of a run: the order of samples must not
// depend on the platform, the standard library or libtorch.
class Random {
 public:
  // Different (seed, stream) pairs have independent sequences.
  Random(uint64_t seed, uint64_t stream) : state_(mix(seed + kStep) ^ mix(mix(stream))) {}

  uint64_t next() { return mix(state_ += kStep); }

  // Uniform in [0, bound); `bound` is at least 1.
  uint64_t below(uint64_t bound) {
    // 2^64 modulo bound: accepting values below it would make small results slightly more likely.
    const uint64_t surplus = (0 - bound) % bound;
    uint64_t value = next();
    while (value < surplus) {
      value = next();
    }
    return value % bound;
  }

  // Uniform in [minimum, maximum].
  int64_t between(int64_t minimum, int64_t maximum) {
    return minimum + static_cast<int64_t>(below(static_cast<uint64_t>(maximum - minimum) + 1));
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

// A random permutation of 0 ... size - 1: Fisher-Yates, from the back.
std::vector<int64_t> permutation(int64_t size, Random random);

}  // namespace lockstep

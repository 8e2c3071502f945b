// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

// How far from one process a training may end: what rounding explains, with room.
inline constexpr std::array kDriftBounds = {1e-10, 1e-5, 2e-2, 5e-3};
inline constexpr std::array kVerifiedTypes = {"float64", "float32", "bf16", "fp16"};

// The first ones are tried under every strategy. The others only under deepspeed, whose parameters
// are then of that type, against its stage 0 on the same workers.
inline constexpr size_t kExactTypes = 2;

// What is tried in each type.
struct Variant {
  const char* name;
  int accumulate;
  bool clips;
};
inline constexpr std::array kVariants = {Variant{"plain", 1, false},
                                         Variant{"accumulate", 2, false},
                                         Variant{"clip", 1, true},
                                         Variant{"both", 2, true}};

// What came out of one training.
struct TrialResult {
  double drift = 0;
  bool identical = true;  // all workers hold the same bits
  std::string worst =
      {};  // the parameter that is furthest off, with its values; empty: none is off
  std::string different = {};  // the first parameter that differs between workers, and where
};

// A row of the table.
struct VerifiedRow {
  std::string strategy;  // with the stage of ZeRO: "deepspeed 2"
  int workers = 0;
  size_t types = kExactTypes;  // how many of the types were tried
  std::array<std::array<TrialResult, kVariants.size()>, kDriftBounds.size()> results;
};

struct VerifyReport {
  int64_t steps = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  double clip_norm = 0;
  std::vector<std::string> notes = {};  // what was done to the model so that it can be compared
  std::vector<VerifiedRow> rows = {};
};

bool is_within_bounds(const TrialResult& result, size_t type);

// Whether every trial is.
bool agrees(const VerifyReport& report);

// The table, the bounds and the verdict, with every offending parameter.
std::string format_report(const VerifyReport& report);

}  // namespace lockstep::train

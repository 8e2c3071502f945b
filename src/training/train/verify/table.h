// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

// Maximum difference from one process for each type: rounding errors, with a margin. In fp16,
// stages 2 and 3 round the sum of gradients after every micro-batch, stages 0 and 1 only at the
// end. Adam divides by the magnitude of a gradient, so that errors of small gradients are as
// visible as those of large ones; differences of up to 6e-3 were observed.
inline constexpr std::array kDriftBounds = {1e-10, 1e-5, 2e-2, 2e-2};
inline constexpr std::array kVerifiedTypes = {"float64", "float32", "bf16", "fp16"};

// The first types are tested under every strategy. The others are tested only under deepspeed,
// whose parameters then have that type, in comparison with its stage 0 on the same workers.
inline constexpr size_t kExactTypes = 2;

// The variants that are tested in each type.
struct Variant {
  const char* name;
  int accumulate;
  bool clips;
};
inline constexpr std::array kVariants = {Variant{"plain", 1, false},
                                         Variant{"accumulate", 2, false},
                                         Variant{"clip", 1, true},
                                         Variant{"both", 2, true}};

struct TrialResult {
  double drift = 0;
  double rounding = 0;    // in 16-bit types: the drift of stage 0 itself, compared with float32
  bool identical = true;  // all workers hold bit-identical parameters
  std::string worst =
      {};  // the parameter with the largest difference and its values; empty: no difference
  std::string different = {};  // the first parameter that differs between workers, and its rank
};

// A row of the table.
struct VerifiedRow {
  std::string strategy;  // with the stage of ZeRO: "deepspeed 2"
  int workers = 0;
  size_t types = kExactTypes;  // number of tested types
  std::array<std::array<TrialResult, kVariants.size()>, kDriftBounds.size()> results;
};

struct VerifyReport {
  int64_t steps = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  double clip_norm = 0;
  std::vector<std::string> notes = {};  // changes to the model that make it comparable
  std::vector<VerifiedRow> rows = {};
};

// A 16-bit training that differs from stage 0 by less than stage 0 differs from float32 is as exact
// as its type allows.
bool is_within_bounds(const TrialResult& result, size_t type);

// Whether all trials are within bounds.
bool agrees(const VerifyReport& report);

// Returns the table, the bounds and the verdict, with every parameter that is out of bounds.
std::string format_report(const VerifyReport& report);

}  // namespace lockstep::train

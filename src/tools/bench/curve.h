// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/bench/report.h"

// Comparison of two loss curves, step by step.
namespace lockstep::bench {

struct Difference {
  double largest = 0;
  size_t step = 0;  // counted from 1
};

Difference compare(const std::vector<double>& ours, const std::vector<double>& theirs);

// The field "losses" of the results; values that are not numbers become NaN.
std::vector<double> losses_of(const nlohmann::json& side);

// CSV with the columns step,loss[,peer].
void write_curve(const std::filesystem::path& path,
                 const std::vector<double>& ours,
                 const std::vector<double>& theirs);

// Table rows with the losses of the first and the last step.
std::vector<Row> loss_rows(const nlohmann::json& ours, const nlohmann::json& theirs);

}  // namespace lockstep::bench

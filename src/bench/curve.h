// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/report.h"

// The losses of two sides, step by step.
namespace lockstep::bench {

struct Difference {
  double largest = 0;
  size_t step = 0;  // from 1
};

Difference compare(const std::vector<double>& ours, const std::vector<double>& theirs);

// "losses" of a side's figures; what is no number there is none here.
std::vector<double> losses_of(const nlohmann::json& side);

// step,loss[,peer]
void write_curve(const std::filesystem::path& path,
                 const std::vector<double>& ours,
                 const std::vector<double>& theirs);

// Of the first and of the last step.
std::vector<Row> loss_rows(const nlohmann::json& ours, const nlohmann::json& theirs);

}  // namespace lockstep::bench

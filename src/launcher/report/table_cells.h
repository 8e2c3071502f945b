// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Cells of the tables of lockstep scaling.
namespace lockstep::report {

// "94%", "5.9%": one decimal below 10 %, where the difference between 0 and 1 matters.
std::string percent_cell(double share);

// Three digits and no exponent.
std::string number_cell(double value);

// Rows of equal length with right-aligned columns, which are numbers.
std::string right_aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::report

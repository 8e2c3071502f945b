// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace lockstep::report {

// A row for each measurement, a column for each coefficient.
using Matrix = std::vector<std::vector<double>>;

// The coefficients of the chosen columns for which rows x coefficients is nearest to 1 in each row;
// 0 for the others. Nothing where the columns do not determine them.
std::optional<std::vector<double>> solve_least_squares(const Matrix& rows,
                                                       std::span<const size_t> columns);

// The same, of all coefficients that are not below 0. Tries every choice among the columns, so for
// a handful of them.
std::vector<double> solve_nonnegative(const Matrix& rows, std::span<const size_t> columns);

// rows x coefficients - 1, root mean square.
double misfit(const Matrix& rows, std::span<const double> coefficients);

}  // namespace lockstep::report

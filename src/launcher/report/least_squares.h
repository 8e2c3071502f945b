// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace lockstep::report {

// One row for each measurement, one column for each coefficient.
using Matrix = std::vector<std::vector<double>>;

// The coefficients that minimize the squared distance of rows x coefficients from 1. Columns that
// are not chosen have the coefficient 0. Nothing if the columns are linearly dependent.
std::optional<std::vector<double>> solve_least_squares(const Matrix& rows,
                                                       std::span<const size_t> columns);

// Least squares with non-negative coefficients. Tries every subset of the columns, so their number
// must be small.
std::vector<double> solve_nonnegative(const Matrix& rows, std::span<const size_t> columns);

// The root mean square of rows x coefficients - 1.
double misfit(const Matrix& rows, std::span<const double> coefficients);

}  // namespace lockstep::report

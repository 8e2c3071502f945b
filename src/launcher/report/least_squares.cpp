// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

// Small dense problems: at most four columns and some dozen rows. The normal equations square the
// condition number, which is acceptable for this size once the columns are scaled to length 1.
namespace lockstep::report {
namespace {

// Gauss-Jordan elimination with partial pivoting; the last column is the right-hand side.
// After scaling, the diagonal is 1. A pivot near 0 means that a column is a combination of the
// others, for example batch and 1 if all runs have the same batch per worker.
std::optional<std::vector<double>> eliminate(Matrix system) {
  constexpr double kSingular = 1e-11;  // for columns of length 1
  const size_t size = system.size();
  for (size_t k = 0; k < size; ++k) {
    const auto pivot = std::max_element(
        system.begin() + static_cast<std::ptrdiff_t>(k), system.end(), [&](auto& one, auto& other) {
          return std::abs(one[k]) < std::abs(other[k]);
        });
    std::swap(system[k], *pivot);
    if (std::abs(system[k][k]) < kSingular) {
      return std::nullopt;
    }
    for (size_t row = 0; row < size; ++row) {
      const double factor = row == k ? 0 : system[row][k] / system[k][k];
      for (size_t i = k; i <= size; ++i) {
        system[row][i] -= factor * system[k][i];
      }
    }
  }
  std::vector<double> solution(size);
  for (size_t k = 0; k < size; ++k) {
    solution[k] = system[k][size] / system[k][k];
  }
  return solution;
}

double length_of(const Matrix& rows, size_t column) {
  return std::sqrt(std::accumulate(rows.begin(), rows.end(), 0.0, [&](double sum, const auto& row) {
    return sum + row[column] * row[column];
  }));
}

// The normal equations of the columns, scaled to length 1.
Matrix normal_equations(const Matrix& rows,
                        std::span<const size_t> columns,
                        std::span<const double> lengths) {
  Matrix system(columns.size(), std::vector<double>(columns.size() + 1));
  for (const auto& row : rows) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const double value = row[columns[i]] / lengths[i];
      for (size_t j = 0; j < columns.size(); ++j) {
        system[i][j] += value * row[columns[j]] / lengths[j];
      }
      system[i].back() += value;
    }
  }
  return system;
}

}  // namespace

std::optional<std::vector<double>> solve_least_squares(const Matrix& rows,
                                                       std::span<const size_t> columns) {
  std::vector<double> lengths(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    lengths[i] = length_of(rows, columns[i]);
    if (lengths[i] == 0) {
      return std::nullopt;
    }
  }
  const auto solution = eliminate(normal_equations(rows, columns, lengths));
  if (!solution) {
    return std::nullopt;
  }
  std::vector<double> coefficients(rows.front().size());
  for (size_t i = 0; i < columns.size(); ++i) {
    coefficients[columns[i]] = (*solution)[i] / lengths[i];
  }
  return coefficients;
}

// At the constrained optimum, each coefficient is either 0 or unconstrained. The optimum is
// therefore among the unconstrained solutions of all subsets of the columns. At most 2^4 - 1
// solutions of at most 4 x 4, which is faster to run and to verify than the active-set method of
// Lawson and Hanson.
std::vector<double> solve_nonnegative(const Matrix& rows, std::span<const size_t> columns) {
  std::vector<double> best(rows.front().size());
  double minimum = std::numeric_limits<double>::infinity();
  for (size_t choice = 1; choice < size_t{1} << columns.size(); ++choice) {
    std::vector<size_t> chosen;
    chosen.reserve(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      if ((choice >> i & 1) != 0) {
        chosen.push_back(columns[i]);
      }
    }
    const auto found = solve_least_squares(rows, chosen);
    const bool is_allowed =
        found && std::ranges::none_of(*found, [](double value) { return value < 0; });
    if (is_allowed && misfit(rows, *found) < minimum) {
      minimum = misfit(rows, *found);
      best = *found;
    }
  }
  return best;
}

double misfit(const Matrix& rows, std::span<const double> coefficients) {
  double sum = 0;
  for (const auto& row : rows) {
    const double off = std::inner_product(row.begin(), row.end(), coefficients.begin(), 0.0) - 1;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(rows.size()));
}

}  // namespace lockstep::report

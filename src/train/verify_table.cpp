// SPDX-License-Identifier: Apache-2.0
#include "train/verify_table.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::train {
namespace {

std::string format_cell(const TrialResult& result, size_t type) {
  if (!result.identical) {
    return "DIFFERENT";
  }
  return fmt::format("{}{:.1e}", is_within_bounds(result, type) ? "" : "! ", result.drift);
}

// "ddp on 3 workers in float32 with clip".
std::string describe(const VerifiedRow& row, size_t type, size_t variant) {
  return fmt::format("-s {} on {} worker{}, {}, {}",
                     row.strategy,
                     row.workers,
                     row.workers == 1 ? "" : "s",
                     kVerifiedTypes.at(type),
                     kVariants.at(variant).name);
}

std::string format_table(const VerifyReport& report) {
  std::string text = fmt::format("{:<22}{:^48}{:^48}\n", "", "float64", "float32");
  text += fmt::format("{:<12}{:>8}  ", "strategy", "workers");
  for (size_t type = 0; type < kDriftBounds.size(); ++type) {
    for (const Variant& variant : kVariants) {
      text += fmt::format("{:>12}", variant.name);
    }
  }
  text += '\n';
  for (const VerifiedRow& row : report.rows) {
    text += fmt::format("{:<12}{:>8}  ", row.strategy, row.workers);
    for (size_t type = 0; type < kDriftBounds.size(); ++type) {
      for (const TrialResult& result : row.results.at(type)) {
        text += fmt::format("{:>12}", format_cell(result, type));
      }
    }
    text += '\n';
  }
  return text;
}

// One entry for each trial that is out of bounds.
std::string format_faults(const VerifyReport& report) {
  std::string text;
  for (const VerifiedRow& row : report.rows) {
    for (size_t type = 0; type < kDriftBounds.size(); ++type) {
      for (size_t variant = 0; variant < kVariants.size(); ++variant) {
        const TrialResult& result = row.results.at(type).at(variant);
        if (is_within_bounds(result, type)) {
          continue;
        }
        text += fmt::format("  {}\n", describe(row, type, variant));
        if (!result.worst.empty()) {
          text += fmt::format("    {}\n", result.worst);
        }
        if (!result.identical) {
          text += fmt::format("    workers differ: {}\n", result.different);
        }
      }
    }
  }
  return text;
}

double largest(const VerifyReport& report, size_t type) {
  double most = 0;
  for (const VerifiedRow& row : report.rows) {
    for (const TrialResult& result : row.results.at(type)) {
      most = std::max(most, result.drift);
    }
  }
  return most;
}

}  // namespace

bool is_within_bounds(const TrialResult& result, size_t type) {
  return result.identical && result.drift <= kDriftBounds.at(type);
}

bool agrees(const VerifyReport& report) {
  return std::all_of(report.rows.begin(), report.rows.end(), [](const VerifiedRow& row) {
    for (size_t type = 0; type < kDriftBounds.size(); ++type) {
      for (const TrialResult& result : row.results.at(type)) {
        if (!is_within_bounds(result, type)) {
          return false;
        }
      }
    }
    return true;
  });
}

std::string format_report(const VerifyReport& report) {
  std::string text = fmt::format(
      "largest difference of a parameter after {} steps, against one process on the same global "
      "batches of {}\n\n",
      report.steps,
      report.global_batch);
  text += format_table(report) + '\n';
  text += fmt::format("accumulate  {} micro-batches per step\n", kVariants.at(1).accumulate);
  text += fmt::format("clip        to a norm of {:.4g}, half of the mean over the steps\n",
                      report.clip_norm);
  text +=
      "difference  relative to the largest value of the same tensor, or to 1 % of the model's "
      "largest\n";
  for (const std::string& note : report.notes) {
    text += fmt::format("note        {}\n", note);
  }
  for (size_t type = 0; type < kDriftBounds.size(); ++type) {
    text += fmt::format("{:<12}largest {:.1e}, bound {:.0e}\n",
                        kVerifiedTypes.at(type),
                        largest(report, type),
                        kDriftBounds.at(type));
  }
  if (report.world_size == 1) {
    text +=
        "hint        one worker shows little: lockstep run --nproc-per-node 4 -- PROGRAM "
        "--verify-strategies\n";
  }
  const std::string faults = format_faults(report);
  text += faults.empty() ? "\nverdict: every strategy trains as one process does\n"
                         : fmt::format("\nverdict: NOT THE SAME TRAINING\n{}", faults);
  return text;
}

}  // namespace lockstep::train

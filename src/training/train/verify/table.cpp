// SPDX-License-Identifier: Apache-2.0
#include "training/train/verify/table.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "common/base/text.h"

namespace lockstep::train {
namespace {

std::string format_cell(const TrialResult& result, size_t type) {
  if (!result.identical) {
    return "DIFFERENT";
  }
  return fmt::format("{}{:.1e}", is_within_bounds(result, type) ? "" : "! ", result.drift);
}

// Returns "-s ddp on 3 workers, float32, clip".
std::string describe(const VerifiedRow& row, size_t type, size_t variant) {
  return fmt::format("-s {} on {}, {}, {}",
                     row.strategy,
                     plural(row.workers, "worker"),
                     kVerifiedTypes.at(type),
                     kVariants.at(variant).name);
}

// Returns a table of the types [first, first + 2) with all rows that have them; empty if none has.
// Two types per table: wider tables would exceed 120 columns.
std::string format_table(const VerifyReport& report, size_t first) {
  std::string lines;
  const size_t end = first + 2;
  size_t last = 0;  // end of the types of all rows
  for (const VerifiedRow& row : report.rows) {
    last = std::max(last, std::min(row.types, end));
  }
  for (const VerifiedRow& row : report.rows) {
    if (row.types <= first) {
      continue;
    }
    lines += fmt::format("{:<12}{:>8}  ", row.strategy, row.workers);
    for (size_t type = first; type < std::min(row.types, end); ++type) {
      for (const TrialResult& result : row.results.at(type)) {
        lines += fmt::format("{:>12}", format_cell(result, type));
      }
    }
    lines += '\n';
  }
  if (lines.empty()) {
    return lines;
  }
  std::string head = fmt::format("{:<22}", "");
  std::string names = fmt::format("{:<12}{:>8}  ", "strategy", "workers");
  for (size_t type = first; type < last; ++type) {
    static_assert(kVariants.size() * 12 == 48, "a type is as wide as its variants");
    head += fmt::format("{:^48}", kVerifiedTypes.at(type));
    for (const Variant& variant : kVariants) {
      names += fmt::format("{:>12}", variant.name);
    }
  }
  return head + '\n' + names + '\n' + lines;
}

// One entry per trial that is out of bounds.
std::string format_faults(const VerifyReport& report) {
  std::string text;
  for (const VerifiedRow& row : report.rows) {
    for (size_t type = 0; type < row.types; ++type) {
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

// Returns the largest value of a type, or nothing if the type was not tested. The largest
// difference is shown next to the bound, so that a shrinking margin is noticed before it is
// exceeded.
std::optional<double> largest(const VerifyReport& report, size_t type, double TrialResult::*value) {
  std::optional<double> maximum;
  for (const VerifiedRow& row : report.rows) {
    for (size_t i = 0; type < row.types && i < kVariants.size(); ++i) {
      maximum = std::max(maximum.value_or(0), row.results.at(type).at(i).*value);
    }
  }
  return maximum;
}

std::string format_bounds(const VerifyReport& report) {
  std::string text;
  for (size_t type = 0; type < kDriftBounds.size(); ++type) {
    const auto drift = largest(report, type, &TrialResult::drift);
    if (!drift) {
      continue;
    }
    text += fmt::format("{:<12}largest {:.1e}, bound {:.0e}",
                        kVerifiedTypes.at(type),
                        *drift,
                        kDriftBounds.at(type));
    if (type >= kExactTypes) {
      text += fmt::format(" or the difference of stage 0 from float32, up to {:.1e}",
                          largest(report, type, &TrialResult::rounding).value_or(0));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

bool is_within_bounds(const TrialResult& result, size_t type) {
  return result.identical && result.drift <= std::max(kDriftBounds.at(type), result.rounding);
}

// Decides the exit code: 0 only if every trial is within bounds and all workers hold equal weights.
bool agrees(const VerifyReport& report) {
  return std::all_of(report.rows.begin(), report.rows.end(), [](const VerifiedRow& row) {
    for (size_t type = 0; type < row.types; ++type) {
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
      "largest difference of a parameter after {} steps, compared with one process on the same "
      "global batches of {}\n\n",
      report.steps,
      report.global_batch);
  text += format_table(report, 0) + '\n';
  if (const std::string rest = format_table(report, kExactTypes); !rest.empty()) {
    text += "compared with stage 0 on the same workers\n" + rest + '\n';
  }
  text += fmt::format("accumulate  {} micro-batches per step\n", kVariants.at(1).accumulate);
  text += fmt::format("clip        to a norm of {:.4g}, half of the mean over the steps\n",
                      report.clip_norm);
  text +=
      "difference  relative to the largest value of the same tensor, or to 1 % of the model's "
      "largest\n";
  for (const std::string& note : report.notes) {
    text += fmt::format("note        {}\n", note);
  }
  text += format_bounds(report);
  if (report.world_size == 1) {
    text +=
        "hint        one worker tests little: lockstep run --nproc-per-node 4 -- PROGRAM "
        "--verify-strategies\n";
  }
  const std::string faults = format_faults(report);
  text += faults.empty() ? "\nverdict: every strategy agrees with one process\n"
                         : fmt::format("\nverdict: STRATEGIES DIFFER\n{}", faults);
  return text;
}

}  // namespace lockstep::train

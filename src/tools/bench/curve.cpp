// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/curve.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/os/files.h"

namespace lockstep::bench {

// Steps are numbered from 1; 0 means that there was nothing to compare.
Difference compare(const std::vector<double>& ours, const std::vector<double>& theirs) {
  Difference found;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const double difference = std::abs(ours[i] - theirs[i]);
    if (found.step == 0 || !(difference <= found.largest)) {  // also true for NaN
      found = {.largest = difference, .step = i + 1};
    }
  }
  return found;
}

std::vector<double> losses_of(const nlohmann::json& side) {
  std::vector<double> losses;
  for (const nlohmann::json& loss : side.value("losses", nlohmann::json::array())) {
    // NaN and infinities arrive as null, because JSON has no numbers for them.
    losses.push_back(loss.is_number() ? loss.get<double>() : std::nan(""));
  }
  return losses;
}

void write_curve(const std::filesystem::path& path,
                 const std::vector<double>& ours,
                 const std::vector<double>& theirs) {
  std::string text = theirs.empty() ? "step,loss\n" : "step,loss,peer\n";
  for (size_t i = 0; i < ours.size(); ++i) {
    text += fmt::format("{},{:.6f}", i + 1, ours[i]);
    text += i < theirs.size() ? fmt::format(",{:.6f}\n", theirs[i]) : "\n";
  }
  os::write_file(path, text);
}

// The first losses must agree (same weights, same data); the last show whether the gradients do.
std::vector<Row> loss_rows(const nlohmann::json& ours, const nlohmann::json& theirs) {
  Row first{"first loss", std::nullopt, std::nullopt, 4};
  Row last{"last loss", std::nullopt, std::nullopt, 4};
  if (const auto curve = losses_of(ours); !curve.empty()) {
    first.ours = curve.front();
    last.ours = curve.back();
  }
  if (const auto curve = losses_of(theirs); !curve.empty()) {
    first.theirs = curve.front();
    last.theirs = curve.back();
  }
  return {first, last};
}

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/report/scaling.h"

// Formats a comparison of runs as text, CSV and JSON (docs/scaling.md).
namespace lockstep::report {

// A table for each curve, the model with its accuracy, and the runs that were skipped; at most 100
// columns wide.
std::string scaling_table(const Scaling& scaling);

// A row for each size of each curve, measured and predicted.
std::string scaling_csv(const Scaling& scaling);

std::string scaling_json(const Scaling& scaling);

// "ddp, strong scaling, global batch 256"
std::string title_of(const StrategyScaling& strategy, const ScalingCurve& curve);

// Remarks about a strategy in addition to its curves, one sentence each.
std::vector<std::string> remarks_of(const StrategyScaling& strategy);

}  // namespace lockstep::report

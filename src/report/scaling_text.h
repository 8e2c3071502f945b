// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/scaling.h"

// A comparison of runs for people and for programs, docs/scaling.md.
namespace lockstep::report {

// A table for each curve, what the model is and how far it may be trusted, and what was left out;
// at most 100 columns.
std::string scaling_table(const Scaling& scaling);

// A row for each size of each curve, measured and predicted.
std::string scaling_csv(const Scaling& scaling);

std::string scaling_json(const Scaling& scaling);

// "ddp, strong scaling, global batch 256"
std::string title_of(const StrategyScaling& strategy, const ScalingCurve& curve);

// What is to be said of a strategy beside its curves, a sentence each.
std::vector<std::string> remarks_of(const StrategyScaling& strategy);

}  // namespace lockstep::report

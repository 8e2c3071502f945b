// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "common/contract/launch_plan.h"

namespace lockstep::plan {

using contract::Source;
using contract::Sourced;
using contract::ValueSource;

// "flag --grace", "variable OMP_NUM_THREADS", "probe: free on this machine", "default".
std::string describe(const Source& source);

template <typename T>
Sourced<T> from_flag(T value, std::string flag) {
  return {std::move(value), {ValueSource::Flag, std::move(flag)}};
}
template <typename T>
Sourced<T> from_probe(T value, std::string what) {
  return {std::move(value), {ValueSource::Probe, std::move(what)}};
}
template <typename T>
Sourced<T> from_default(T value, std::string why = "") {
  return {std::move(value), {ValueSource::Default, std::move(why)}};
}

}  // namespace lockstep::plan

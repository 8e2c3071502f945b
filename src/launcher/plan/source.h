// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

namespace lockstep::plan {

// The kind of source of a value in the plan.
enum class ValueSource { Flag, Variable, Probe, Default };

struct Source {
  ValueSource kind = ValueSource::Default;
  std::string detail;  // "--grace", "OMP_NUM_THREADS", "free on this machine"

  bool operator==(const Source&) const = default;
};

// "flag --grace", "variable OMP_NUM_THREADS", "probe: free on this machine", "default".
std::string describe(const Source& source);

// A value and its source.
template <typename T>
struct Sourced {
  T value{};
  Source source;

  bool operator==(const Sourced&) const = default;
};

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

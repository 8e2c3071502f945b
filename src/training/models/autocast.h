// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/types.h>

namespace lockstep::models {

// Returns the type in which this thread computes matrix products and convolutions on `device`, or
// nothing if autocast is disabled.
std::optional<torch::ScalarType> autocast_type(torch::DeviceType device);

// Enables autocast on this thread during the lifetime of this object: operators that benefit run on
// `device` in `type`, all others in float32; the parameters keep their types. Without `type`,
// autocast is disabled. The destructor restores the previous state and drops the cached copies of
// weights at the end of the outermost scope.
class AutocastScope {
 public:
  AutocastScope(torch::DeviceType device, std::optional<torch::ScalarType> type);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  torch::DeviceType device_;
  bool was_on_;
  torch::ScalarType old_type_;
};

// During the lifetime of this object, models with fp8 kernels use them on this thread. All other
// models ignore it and follow AutocastScope. Scopes can be nested.
class Fp8Scope {
 public:
  Fp8Scope();
  ~Fp8Scope();
  Fp8Scope(const Fp8Scope&) = delete;
  Fp8Scope& operator=(const Fp8Scope&) = delete;

  // Returns whether a model has used fp8 since the scope was opened.
  bool was_used() const { return was_used_; }

 private:
  friend void note_fp8_is_used();
  bool was_used_ = false;
  Fp8Scope* outer_;
};

bool fp8_is_on();

// Marks the innermost scope as used. Must be called within a scope.
void note_fp8_is_used();

}  // namespace lockstep::models

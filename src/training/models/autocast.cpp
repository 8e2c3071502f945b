// SPDX-License-Identifier: Apache-2.0
#include "training/models/autocast.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace lockstep::models {
namespace {

// libtorch 1.13 has one setter per device, later versions have one for all devices. Only an
// unqualified name may be missing in a `requires` expression, hence the using directive.
using namespace at::autocast;  // NOLINT(google-build-using-namespace)

template <typename Device, typename Type>
void set_type(Device device, Type type) {
  if constexpr (requires { set_autocast_dtype(device, type); }) {
    set_autocast_dtype(device, type);
  } else if (device == torch::kCPU) {
    set_autocast_cpu_dtype(type);
  } else {
    set_autocast_gpu_dtype(type);
  }
}

template <typename Device>
torch::ScalarType get_type(Device device) {
  if constexpr (requires { get_autocast_dtype(device); }) {
    return get_autocast_dtype(device);
  } else {
    return get_lower_precision_fp_from_device_type(device);
  }
}

bool is_on(torch::DeviceType device) {
  return !c10::impl::tls_is_dispatch_key_excluded(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

void turn(torch::DeviceType device, bool on) {
  c10::impl::tls_set_dispatch_key_excluded(
      at::autocast::get_autocast_dispatch_key_from_device_type(device), !on);
}

// Thread-local, like the state of autocast.
thread_local Fp8Scope* innermost_fp8 = nullptr;

}  // namespace

Fp8Scope::Fp8Scope() : outer_(innermost_fp8) {
  innermost_fp8 = this;
}

Fp8Scope::~Fp8Scope() {
  innermost_fp8 = outer_;
}

bool fp8_is_on() {
  return innermost_fp8 != nullptr;
}

void note_fp8_is_used() {
  innermost_fp8->was_used_ = true;
}

std::optional<torch::ScalarType> autocast_type(torch::DeviceType device) {
  return is_on(device) ? std::optional(get_type(device)) : std::nullopt;
}

AutocastScope::AutocastScope(torch::DeviceType device, std::optional<torch::ScalarType> type)
    : device_(device), was_on_(is_on(device)), old_type_(get_type(device)) {
  if (type) {
    set_type(device, *type);
  }
  turn(device, type.has_value());
  at::autocast::increment_nesting();
}

// The cache holds 16-bit copies of parameters. It must be empty at the end of the outermost scope,
// because the optimizer changes the parameters afterwards.
AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  turn(device_, was_on_);
  set_type(device_, old_type_);
}

}  // namespace lockstep::models

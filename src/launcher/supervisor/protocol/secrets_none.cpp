// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"
#include "launcher/supervisor/protocol/secrets.h"

// Replaces secrets_sodium.cpp in a build without the control plane. These functions are not called.
namespace lockstep::supervisor {

std::array<uint8_t, 32> make_tag(const SecretKey& /*key*/, std::span<const uint8_t> /*message*/) {
  LOCKSTEP_CHECK(false);
  return {};
}

bool is_same_tag(std::span<const uint8_t> /*one*/, std::span<const uint8_t> /*other*/) {
  LOCKSTEP_CHECK(false);
  return false;
}

SecretKey derive_key(const std::string& /*secret*/, const std::string& /*purpose*/) {
  LOCKSTEP_CHECK(false);
  return {};
}

void fill_random(std::span<uint8_t> /*bytes*/) {
  LOCKSTEP_CHECK(false);
}

}  // namespace lockstep::supervisor

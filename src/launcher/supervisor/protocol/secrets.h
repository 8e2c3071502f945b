// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

// The cryptography beyond ZeroMQ, from libsodium. Not available, and not used, in a build without
// the control plane.
namespace lockstep::supervisor {

using SecretKey = std::array<uint8_t, 32>;

// A message authentication code (HMAC-SHA512-256): only owners of the key can compute it.
std::array<uint8_t, 32> make_tag(const SecretKey& key, std::span<const uint8_t> message);

// Compares in constant time.
bool is_same_tag(std::span<const uint8_t> one, std::span<const uint8_t> other);

// A key for one purpose from a secret of any length.
SecretKey derive_key(const std::string& secret, const std::string& purpose);

void fill_random(std::span<uint8_t> bytes);

}  // namespace lockstep::supervisor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

// The little cryptography that is not ZeroMQ's own. From libsodium; a lockstep built without the
// control plane has none of it and never asks.
namespace lockstep::agent {

using SecretKey = std::array<uint8_t, 32>;

// Whoever has the key can make the same tag, nobody else can.
std::array<uint8_t, 32> make_tag(const SecretKey& key, std::span<const uint8_t> message);

// Takes the same time wherever the two differ.
bool is_same_tag(std::span<const uint8_t> one, std::span<const uint8_t> other);

// A key for one purpose from a secret of any length.
SecretKey derive_key(const std::string& secret, const std::string& purpose);

void fill_random(std::span<uint8_t> bytes);

}  // namespace lockstep::agent

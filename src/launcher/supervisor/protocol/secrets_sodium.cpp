// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sodium.h>

#include "common/base/check.h"
#include "launcher/supervisor/protocol/secrets.h"

namespace lockstep::supervisor {

std::array<uint8_t, 32> make_tag(const SecretKey& key, std::span<const uint8_t> message) {
  static_assert(crypto_auth_BYTES == 32 && crypto_auth_KEYBYTES == 32);
  std::array<uint8_t, crypto_auth_BYTES> tag{};
  crypto_auth(tag.data(), message.data(), message.size(), key.data());
  return tag;
}

bool is_same_tag(std::span<const uint8_t> one, std::span<const uint8_t> other) {
  return one.size() == other.size() && sodium_memcmp(one.data(), other.data(), other.size()) == 0;
}

// BLAKE2b with the hash of the purpose as key and the secret as message, because keys have a
// limited length and the secret may be longer.
SecretKey derive_key(const std::string& secret, const std::string& purpose) {
  SecretKey label{};
  crypto_generichash(label.data(),
                     label.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()),
                     purpose.size(),
                     nullptr,
                     0);
  SecretKey key{};
  crypto_generichash(key.data(),
                     key.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()),
                     secret.size(),
                     label.data(),
                     label.size());
  return key;
}

void fill_random(std::span<uint8_t> bytes) {
  LOCKSTEP_CHECK(sodium_init() >= 0);
  randombytes_buf(bytes.data(), bytes.size());
}

}  // namespace lockstep::supervisor

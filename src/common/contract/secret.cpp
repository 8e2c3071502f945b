// SPDX-License-Identifier: Apache-2.0
#include "common/contract/secret.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/base/text.h"

namespace lockstep::contract {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether a name marks a secret. Compares whole words: TOKENIZERS_PARALLELISM is not a secret.
bool is_secret_name(std::string_view name) {
  constexpr auto kWords = std::to_array<std::string_view>({"token",
                                                           "secret",
                                                           "password",
                                                           "passwd",
                                                           "api_key",
                                                           "apikey",
                                                           "access_key",
                                                           "private_key",
                                                           "credential",
                                                           "credentials"});
  const std::string letters = "_" + to_lower(name) + "_";
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return contains(letters, "_" + std::string(word) + "_");
  });
}

// "http://user:password@proxy": user and password are between "://" and "@", separated by a colon.
bool has_password(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t at = url.find('@');
  return scheme != std::string_view::npos && at != std::string_view::npos &&
         contains(url.substr(scheme + 3, at - scheme - 3), ":");
}

}  // namespace

bool is_secret(std::string_view name, std::string_view value) {
  return (is_secret_name(name) && !value.starts_with('$')) || has_password(value);
}

}  // namespace lockstep::contract

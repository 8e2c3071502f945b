// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/access.h"

#include <cstddef>
#include <fmt/format.h>
#include <random>
#include <utility>

#include "common/base/text.h"

// The dashboard listens on a port of a shared login node, where every user can connect to
// 127.0.0.1. The token is what keeps other users out: it is in the address that lockstep prints,
// and a browser gets it as a cookie on the first request.
namespace lockstep::monitor {

// std::random_device of libstdc++ reads the random source of the kernel or the CPU. It is not
// seeded, so two processes never share a sequence.
std::string make_token() {
  std::random_device source;
  std::string token;
  for (int word = 0; word < 4; ++word) {
    token += fmt::format("{:08x}", source());
  }
  return token;
}

bool is_same_secret(std::string_view one, std::string_view other) {
  // The length of the token is public.
  if (one.size() != other.size()) {
    return false;
  }
  volatile unsigned char differences = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    differences = static_cast<unsigned char>(differences | (one[i] ^ other[i]));
  }
  return differences == 0;
}

std::string cookie_of(std::string_view line, std::string_view name) {
  for (const std::string& piece : split(line, ';')) {
    const std::string_view pair = trim(piece);
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return std::string(pair.substr(equals + 1));
    }
  }
  return "";
}

Access::Access(std::string token)
    : token_(std::move(token)), cookie_name_("lockstep-" + make_token().substr(0, 8)) {}

// All three comparisons are made in any case: the duration does not show which one succeeded.
bool Access::admits(std::string_view token,
                    std::string_view cookies,
                    std::string_view bearer) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view spoken =
      bearer.starts_with(kBearer) ? bearer.substr(kBearer.size()) : std::string_view();
  const bool by_query = is_same_secret(token, token_);
  const bool by_cookie = is_same_secret(cookie_of(cookies, cookie_name_), token_);
  const bool by_bearer = is_same_secret(spoken, token_);
  return by_query || by_cookie || by_bearer;
}

// SameSite=Strict: a page of another site cannot use the cookie of the user's browser. Without
// Secure, because the server speaks plain HTTP; use an SSH tunnel from another host.
std::string Access::cookie() const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name_, token_);
}

}  // namespace lockstep::monitor

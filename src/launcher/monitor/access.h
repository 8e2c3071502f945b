// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Access control of the dashboard: a request must carry its token.
namespace lockstep::monitor {

// 128 bits from the random source of the system, as 32 hexadecimal digits.
std::string make_token();

// Compares two strings in constant time, so that the duration does not reveal where they differ.
bool is_same_secret(std::string_view one, std::string_view other);

// The value of a cookie in the Cookie header of a request ("a=1; b=2"); empty if it is missing.
std::string cookie_of(std::string_view line, std::string_view name);

// Checks requests against one token. The name of the cookie is random, because browsers share
// cookies between all ports of a host: two dashboards would otherwise overwrite each other's.
class Access {
 public:
  explicit Access(std::string token = make_token());

  const std::string& token() const { return token_; }

  // Accepts the token from the query, from the Cookie header or from the Authorization header.
  bool admits(std::string_view token, std::string_view cookies, std::string_view bearer) const;

  // The Set-Cookie header that admits a browser to later requests.
  std::string cookie() const;

 private:
  std::string token_;
  std::string cookie_name_;
};

}  // namespace lockstep::monitor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Who may see a dashboard: those who know its token.
namespace lockstep::monitor {

// 128 random bits as 32 digits, from the system's source.
std::string make_token();

// Whether two texts are the same, in a time that tells nothing of where they differ.
bool is_same_secret(std::string_view one, std::string_view other);

// The value of a cookie in a request's Cookie line ("a=1; b=2"); empty: it has none.
std::string cookie_of(std::string_view line, std::string_view name);

// A lock with one key. The cookie has a name of its own, as browsers do not keep the cookies of two
// ports of a machine apart.
class Access {
 public:
  explicit Access(std::string token = make_token());

  const std::string& token() const { return token_; }

  // What a request may bring: a query's token, its Cookie line, its Authorization line.
  bool admits(std::string_view token, std::string_view cookies, std::string_view bearer) const;

  // The Set-Cookie line that lets a browser in from now on.
  std::string cookie() const;

 private:
  std::string token_;
  std::string cookie_name_;
};

}  // namespace lockstep::monitor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

// A store of keys and values as HTTP tells it: PUT, GET and DELETE of /SCOPE/KEY. Pure.
namespace lockstep::agent {

// One request, read as its bytes come in. It never holds more than the limits, whatever comes.
class RequestReader {
 public:
  static constexpr size_t kMostHead = size_t{8} << 10U;
  static constexpr size_t kMostBody = size_t{1} << 20U;

  // Nothing: more is to come. 200: the request is whole. Else: the status with which to refuse it.
  std::optional<int> take(std::string_view bytes);

  // Of a whole request.
  const std::string& method() const { return method_; }
  const std::string& path() const { return path_; }
  std::string& body() { return body_; }

 private:
  std::optional<int> read_head(std::string_view head);
  std::optional<int> read_field(std::string_view field);
  std::optional<int> take_body(std::string_view bytes);

  std::string head_;
  bool has_head_ = false;
  std::string method_;
  std::string path_;
  std::optional<size_t> length_;
  std::string body_;
};

// The values. One thread at a time.
class KeyValues {
 public:
  // Of all together, keys and what it costs to keep them included.
  static constexpr size_t kMostBytes = size_t{64} << 20U;

  // The whole answer to a whole request, after which the connection ends: Horovod's own server
  // takes one request per connection, and its workers count on no more.
  std::string answer(RequestReader& request);

  void clear();

 private:
  int put(const std::string& path, std::string value);
  void erase(const std::string& path);

  std::map<std::string, std::string> values_;
  size_t bytes_ = 0;
};

// "HTTP/1.1 404 Not Found" and so on, with a length even where there is no body: Horovod's workers
// look for it.
std::string to_response(int status, std::string_view body = "");

}  // namespace lockstep::agent

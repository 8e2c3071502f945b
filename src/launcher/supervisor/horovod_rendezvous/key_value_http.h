// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

// A key-value store with an HTTP interface: PUT, GET and DELETE of /SCOPE/KEY. Without I/O.
namespace lockstep::supervisor {

// Parses one request as its bytes arrive. Never stores more than the limits.
class RequestReader {
 public:
  static constexpr size_t kMaxHead = size_t{8} << 10U;
  static constexpr size_t kMaxBody = size_t{1} << 20U;

  // Nothing: the request is incomplete. 200: it is complete. Otherwise: the status to reject it
  // with.
  std::optional<int> take(std::string_view bytes);

  // Of a complete request.
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

// The values. Not thread-safe.
class KeyValues {
 public:
  // Maximum total size, including keys and overhead.
  static constexpr size_t kMaxBytes = size_t{64} << 20U;

  // The response to a complete request. The connection is closed after it, as in the server of
  // Horovod, which handles one request per connection.
  std::string answer(RequestReader& request);

 private:
  int put(const std::string& path, std::string value);
  void erase(const std::string& path);

  std::map<std::string, std::string> values_;
  size_t bytes_ = 0;
};

// "HTTP/1.1 404 Not Found" and so on. Contains Content-Length even without a body, because Horovod
// requires it.
std::string to_response(int status, std::string_view body = "");

}  // namespace lockstep::supervisor

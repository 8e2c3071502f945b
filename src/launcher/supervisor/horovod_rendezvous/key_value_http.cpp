// SPDX-License-Identifier: Apache-2.0
//
// The subset of HTTP/1.1 that Horovod's client uses (horovod/common/gloo/http_store.cc): PUT with
// Content-Length, GET, DELETE. Everything else is rejected with the status that HTTP defines for
// it. The port is open to every process that reaches it, so all sizes are limited before memory is
// allocated.
#include "launcher/supervisor/horovod_rendezvous/key_value_http.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"

namespace lockstep::supervisor {
namespace {

// Approximate overhead of a map node, in addition to its two strings.
constexpr size_t kBytesPerEntry = 128;

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// "/scope/key", neither of them empty.
bool is_key(std::string_view path) {
  const size_t slash = path.find('/', 1);
  return path.starts_with('/') && slash != std::string_view::npos && slash > 1 &&
         slash + 1 < path.size() && path.find('/', slash + 1) == std::string_view::npos;
}

std::string_view word_for(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    default:
      return "Insufficient Storage";
  }
}

}  // namespace

std::string to_response(int status, std::string_view body) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status,
                     word_for(status),
                     body.size(),
                     body);
}

// Searches only the new bytes and the last four before them, so that a slow sender does not cause
// quadratic work.
std::optional<int> RequestReader::take(std::string_view bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (has_head_) {
    return take_body(bytes);
  }
  const size_t before = head_.size();
  // The separator may be split between two reads.
  const size_t from = before - std::min(before, kEnd.size());
  head_ += bytes.substr(0, kMaxHead + kEnd.size());
  const size_t end = head_.find(kEnd, from);
  if (std::min(end, head_.size()) > kMaxHead) {
    return 431;
  }
  if (end == std::string::npos) {
    return std::nullopt;
  }
  bytes.remove_prefix(end + kEnd.size() - before);
  has_head_ = true;
  head_.resize(end);
  if (const auto refusal = read_head(head_)) {
    return refusal;
  }
  return take_body(bytes);
}

// The path is everything between the first and the last blank of the request line, so that a key
// can contain blanks.
std::optional<int> RequestReader::read_head(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last).starts_with(" HTTP/1.")) {
    return 400;
  }
  method_ = line.substr(0, first);
  path_ = line.substr(first + 1, last - first - 1);
  head.remove_prefix(line.size());
  while (!head.empty()) {
    head.remove_prefix(2);  // the end of the previous line
    const std::string_view field = head.substr(0, head.find("\r\n"));
    if (const auto refusal = read_field(field)) {
      return refusal;
    }
    head.remove_prefix(field.size());
  }
  if (method_ != "PUT" && method_ != "GET" && method_ != "DELETE") {
    return 405;
  }
  if (!is_key(path_)) {
    return 400;
  }
  return method_ == "PUT" && !length_ ? std::optional(411) : std::nullopt;
}

// Transfer-Encoding is rejected, and two different lengths are an error: with either, reader and
// sender could disagree about the end of the request.
std::optional<int> RequestReader::read_field(std::string_view field) {
  const size_t colon = field.find(':');
  if (colon == std::string_view::npos) {
    return 400;
  }
  const std::string_view name = field.substr(0, colon);
  if (is_same_word(name, "Transfer-Encoding")) {
    return 501;
  }
  if (!is_same_word(name, "Content-Length")) {
    return std::nullopt;
  }
  const std::string_view value = trim(field.substr(colon + 1));
  const char* const end = value.data() + value.size();
  size_t length = 0;
  const auto [rest, fault] = std::from_chars(value.data(), end, length);
  if (fault == std::errc::result_out_of_range || length > kMaxBody) {
    return 413;
  }
  if (fault != std::errc() || rest != end || (length_ && *length_ != length)) {
    return 400;
  }
  length_ = length;
  return std::nullopt;
}

std::optional<int> RequestReader::take_body(std::string_view bytes) {
  // Bytes after the request are ignored.
  const size_t length = length_.value_or(0);
  body_ += bytes.substr(0, length - std::min(length, body_.size()));
  return body_.size() == length ? std::optional(200) : std::nullopt;
}

std::string KeyValues::answer(RequestReader& request) {
  if (request.method() == "PUT") {
    return to_response(put(request.path(), std::move(request.body())));
  }
  if (request.method() == "DELETE") {
    erase(request.path());
    return to_response(200);
  }
  const auto found = values_.find(request.path());
  return found == values_.end() ? to_response(404) : to_response(200, found->second);
}

int KeyValues::put(const std::string& path, std::string value) {
  const auto found = values_.find(path);
  const size_t before =
      found == values_.end() ? 0 : kBytesPerEntry + path.size() + found->second.size();
  const size_t after = kBytesPerEntry + path.size() + value.size();
  if (bytes_ - before + after > kMaxBytes) {
    return 507;
  }
  bytes_ = bytes_ - before + after;
  values_.insert_or_assign(path, std::move(value));
  return 200;
}

// A worker deletes its own key when all are connected. The server of Horovod clears the scope after
// the last DELETE. Removing each key at once has the same effect, and a worker that initializes
// again meanwhile (hvd.shutdown(), hvd.init()) does not lose its new key.
void KeyValues::erase(const std::string& path) {
  const auto found = values_.find(path);
  if (found != values_.end()) {
    bytes_ -= kBytesPerEntry + path.size() + found->second.size();
    values_.erase(found);
  }
}

}  // namespace lockstep::supervisor

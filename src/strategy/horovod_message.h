// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::strategy::horovod {

// What shall become of a tensor that all workers have ready.
struct Operation {
  enum class Kind : uint8_t { Sum, Adasum };

  Kind kind = Kind::Sum;
  c10::ScalarType wire = c10::ScalarType::Undefined;  // travels as this; Undefined: as it is
  double before = 1;                                  // factor before the sum
  double after = 1;                                   // factor after it

  bool operator==(const Operation&) const = default;
};

std::string to_text(const Operation& operation);

// What a tensor looks like; must be the same on all workers.
struct Signature {
  std::string name = {};
  std::vector<int64_t> shape = {};
  c10::ScalarType type = c10::ScalarType::Float;
  Operation operation = {};

  bool operator==(const Signature&) const = default;
  int64_t elements() const;
  // Of the type that it travels as.
  c10::ScalarType wire_type() const;
  int64_t wire_bytes() const;
};

std::string shape_text(const std::vector<int64_t>& shape);

// What a worker tells the coordinator.
struct Request {
  enum class Kind : uint8_t { Reduce, Join, Leave };

  Kind kind = Kind::Reduce;
  Signature tensor = {};
  bool empty = false;  // this worker has no gradient: counts as zeros
  double waited = 0;   // seconds since it was announced

  bool operator==(const Request&) const = default;
};

// What the coordinator tells all workers.
struct Response {
  enum class Kind : uint8_t { Reduce, AllJoined, Left, Fault, Tune };

  Kind kind = Kind::Reduce;
  Signature tensor = {};
  bool empty = false;  // on every worker: there is nothing to reduce
  int rank = 0;        // AllJoined: the last to join; Left: who has left
  // Fault: an Error in words.
  int code = 0;
  std::string sentence = {};
  std::vector<std::pair<std::string, std::string>> facts = {};
  std::string hint = {};
  // Tune: what holds from now on.
  int64_t fusion_bytes = 0;
  double cycle_ms = 0;

  bool operator==(const Response&) const = default;
};

// Bytes and back; decoding what encode() did not write is an Error.
std::string encode(const std::vector<Request>& requests);
std::string encode(const std::vector<Response>& responses);
std::vector<Request> decode_requests(std::string_view bytes);
std::vector<Response> decode_responses(std::string_view bytes);

}  // namespace lockstep::strategy::horovod

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::strategy::horovod {

// How a tensor is reduced.
struct Operation {
  enum class Kind : uint8_t { Sum, Adasum };

  Kind kind = Kind::Sum;
  c10::ScalarType wire = c10::ScalarType::Undefined;  // type sent; Undefined: unchanged
  double before = 1;                                  // factor before the sum
  double after = 1;                                   // factor after it

  bool operator==(const Operation&) const = default;
};

std::string to_text(const Operation& operation);

// Properties of a tensor that must be equal on all workers.
struct Signature {
  std::string name = {};
  std::vector<int64_t> shape = {};
  c10::ScalarType type = c10::ScalarType::Float;
  Operation operation = {};

  bool operator==(const Signature&) const = default;
  int64_t elements() const;
  // Type of the message.
  c10::ScalarType wire_type() const;
  int64_t wire_bytes() const;
};

std::string shape_text(const std::vector<int64_t>& shape);

// Message of a worker to the coordinator.
struct Request {
  enum class Kind : uint8_t { Reduce, Join, Leave };

  Kind kind = Kind::Reduce;
  Signature tensor = {};
  bool empty = false;  // this worker has no gradient: it contributes zeros
  double waited = 0;   // seconds since the announcement

  bool operator==(const Request&) const = default;
};

// Message of the coordinator to all workers.
struct Response {
  enum class Kind : uint8_t { Reduce, AllJoined, Left, Fault, Tune };

  Kind kind = Kind::Reduce;
  Signature tensor = {};
  bool empty = false;  // no worker has a gradient: there is nothing to reduce
  int rank = 0;        // AllJoined: the last rank that joined; Left: the rank that left
  // Fault: the parts of an Error.
  int code = 0;
  std::string sentence = {};
  std::vector<std::pair<std::string, std::string>> facts = {};
  std::string hint = {};
  // Tune: the new settings.
  int64_t fusion_bytes = 0;
  double cycle_ms = 0;

  bool operator==(const Response&) const = default;
};

// Serialization. decode_...() throws an Error if the bytes are truncated. See message.cpp
// for the format.
std::string encode(const std::vector<Request>& requests);
std::string encode(const std::vector<Response>& responses);
std::vector<Request> decode_requests(std::string_view bytes);
std::vector<Response> decode_responses(std::string_view bytes);

}  // namespace lockstep::strategy::horovod

// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/message.h"

#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/error.h"

namespace lockstep::strategy::horovod {
namespace {

// Format of the messages. Numbers are in host byte order and without padding: all workers run the
// same program. A text is a length (u64) and its bytes. A message is a sequence of records until
// its end.
//
//   signature  name (text), dimensions (u64), extent (i64) x dimensions, type (i8),
//              operation: kind (u8), wire (i8), before (f64), after (f64)
//   request    kind (u8), signature, empty (u8), waited (f64)
//   response   kind (u8), signature, empty (u8), rank (i32), code (i32), sentence (text),
//              facts (u64), { label (text), value (text) } x facts, hint (text),
//              fusion_bytes (i64), cycle_ms (f64)
//
// All fields are written for every kind, also those without a meaning for it.
class Writer {
 public:
  template <typename Number>
  void number(Number value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    const size_t size = bytes_.size();
    bytes_.resize(size + sizeof(Number));
    std::memcpy(bytes_.data() + size, &value, sizeof(Number));
  }

  void text(const std::string& value) {
    number(static_cast<uint64_t>(value.size()));
    bytes_ += value;
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  std::string text() { return std::string(take(number<uint64_t>())); }

  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) {
      throw Error(ExitCode::Bug, "truncated message from another worker");
    }
    const std::string_view piece = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return piece;
  }

  std::string_view bytes_;
};

void write(Writer& writer, const Signature& tensor) {
  writer.text(tensor.name);
  writer.number(static_cast<uint64_t>(tensor.shape.size()));
  for (const int64_t extent : tensor.shape) {
    writer.number(extent);
  }
  writer.number(tensor.type);
  writer.number(tensor.operation.kind);
  writer.number(tensor.operation.wire);
  writer.number(tensor.operation.before);
  writer.number(tensor.operation.after);
}

Signature read_signature(Reader& reader) {
  Signature tensor;
  tensor.name = reader.text();
  const auto dimensions = reader.number<uint64_t>();
  for (uint64_t i = 0; i < dimensions; ++i) {
    tensor.shape.push_back(reader.number<int64_t>());
  }
  tensor.type = reader.number<c10::ScalarType>();
  tensor.operation.kind = reader.number<Operation::Kind>();
  tensor.operation.wire = reader.number<c10::ScalarType>();
  tensor.operation.before = reader.number<double>();
  tensor.operation.after = reader.number<double>();
  return tensor;
}

}  // namespace

std::string to_text(const Operation& operation) {
  std::string text = operation.kind == Operation::Kind::Adasum ? "adasum" : "sum";
  if (operation.wire != c10::ScalarType::Undefined) {
    text += fmt::format(" as {}", toString(operation.wire));
  }
  if (operation.before != 1 || operation.after != 1) {
    text += fmt::format(", x {:.6g} before, x {:.6g} after", operation.before, operation.after);
  }
  return text;
}

int64_t Signature::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

c10::ScalarType Signature::wire_type() const {
  return operation.wire == c10::ScalarType::Undefined ? type : operation.wire;
}

int64_t Signature::wire_bytes() const {
  return elements() * static_cast<int64_t>(c10::elementSize(wire_type()));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string encode(const std::vector<Request>& requests) {
  Writer writer;
  for (const Request& request : requests) {
    writer.number(request.kind);
    write(writer, request.tensor);
    writer.number(request.empty);
    writer.number(request.waited);
  }
  return writer.take();
}

std::vector<Request> decode_requests(std::string_view bytes) {
  std::vector<Request> requests;
  Reader reader(bytes);
  while (!reader.is_at_end()) {
    Request request;
    request.kind = reader.number<Request::Kind>();
    request.tensor = read_signature(reader);
    request.empty = reader.number<bool>();
    request.waited = reader.number<double>();
    requests.push_back(std::move(request));
  }
  return requests;
}

std::string encode(const std::vector<Response>& responses) {
  Writer writer;
  for (const Response& response : responses) {
    writer.number(response.kind);
    write(writer, response.tensor);
    writer.number(response.empty);
    writer.number(response.rank);
    writer.number(response.code);
    writer.text(response.sentence);
    writer.number(static_cast<uint64_t>(response.facts.size()));
    for (const auto& [label, value] : response.facts) {
      writer.text(label);
      writer.text(value);
    }
    writer.text(response.hint);
    writer.number(response.fusion_bytes);
    writer.number(response.cycle_ms);
  }
  return writer.take();
}

std::vector<Response> decode_responses(std::string_view bytes) {
  std::vector<Response> responses;
  Reader reader(bytes);
  while (!reader.is_at_end()) {
    Response response;
    response.kind = reader.number<Response::Kind>();
    response.tensor = read_signature(reader);
    response.empty = reader.number<bool>();
    response.rank = reader.number<int>();
    response.code = reader.number<int>();
    response.sentence = reader.text();
    const auto facts = reader.number<uint64_t>();
    for (uint64_t i = 0; i < facts; ++i) {
      std::string label = reader.text();
      response.facts.emplace_back(std::move(label), reader.text());
    }
    response.hint = reader.text();
    response.fusion_bytes = reader.number<int64_t>();
    response.cycle_ms = reader.number<double>();
    responses.push_back(std::move(response));
  }
  return responses;
}

}  // namespace lockstep::strategy::horovod

// SPDX-License-Identifier: Apache-2.0
#include "common/contract/event.h"

#include <fmt/format.h>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

// SAX parser that builds an event directly: a viewer reads millions of lines. Skips fields that are
// neither numbers nor strings, because later versions may add some.
class EventReader : public nlohmann::json::json_sax_t {
 public:
  bool null() override {  // JSON writes NaN and infinity as null
    return add(std::numeric_limits<double>::quiet_NaN());
  }
  bool boolean(bool /*value*/) override { return is_object(); }
  bool number_integer(number_integer_t value) override { return add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    return add(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override {
    if (depth_ == 1 && key_ == "event") {
      event_.kind = std::move(value);
      has_kind_ = true;
      return true;
    }
    return add(std::move(value));
  }
  bool binary(binary_t& /*value*/) override { return is_object(); }
  bool start_object(std::size_t /*size*/) override {
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  // An array at the top level is not an event: the parser stops.
  bool start_array(std::size_t /*size*/) override {
    ++depth_;
    return depth_ > 1;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      key_ = std::move(name);
    }
    return true;
  }
  bool parse_error(std::size_t /*at*/,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& fault) override {
    fault_ = fault.what();
    return false;
  }

  bool has_all() const { return has_kind_ && has_time_ && has_rank_; }
  const std::string& fault() const { return fault_; }
  Event take() { return std::move(event_); }

 private:
  bool is_object() const { return depth_ > 0; }

  // Values below depth 1 belong to nested objects or arrays and are skipped. At depth 0 the line is
  // a bare value and not an event.
  bool add(Event::Value value) {
    if (depth_ != 1) {
      return is_object();
    }
    const auto* whole = std::get_if<int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    if (key_ == "time" && (whole != nullptr || real != nullptr)) {
      event_.time = whole != nullptr ? static_cast<double>(*whole) : *real;
      has_time_ = true;
    } else if (key_ == "rank" && whole != nullptr) {
      event_.rank = static_cast<int>(*whole);
      has_rank_ = true;
    } else if (key_ != "event") {
      event_.fields.emplace_back(key_, std::move(value));
    }
    return true;
  }

  Event event_;
  std::string key_;
  std::string fault_ = "not an object";
  int depth_ = 0;
  bool has_kind_ = false;
  bool has_time_ = false;
  bool has_rank_ = false;
};

// JSON has no NaN and infinity; the metrics of a worker's output write them as strings.
std::optional<double> find_written(std::string_view text) {
  if (text == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (text == "inf" || text == "-inf") {
    return (text == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  }
  return std::nullopt;
}

}  // namespace

// "event" comes first, so that find_pace() can recognize the kind from the first bytes of a line.
// Text that is not UTF-8 is replaced, because an event must not end a worker.
std::string to_json(const Event& event) {
  nlohmann::ordered_json line = {{"event", event.kind}, {"time", event.time}, {"rank", event.rank}};
  for (const auto& [name, value] : event.fields) {
    std::visit([&line, &key = name](const auto& content) { line[key] = content; }, value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Event parse_event(std::string_view line) {
  EventReader reader;
  const bool is_whole = nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
  if (!is_whole || !reader.has_all()) {
    throw Error(ExitCode::Io, fmt::format("cannot read the event '{}'", line))
        .fact("reason", is_whole ? "event, time or rank is missing" : reader.fault());
  }
  return reader.take();
}

std::optional<double> find_number(const Event& event, std::string_view name) {
  for (const auto& [field, value] : event.fields) {
    if (field != name) {
      continue;
    }
    if (const auto* real = std::get_if<double>(&value)) {
      return *real;
    }
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      return static_cast<double>(*whole);
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      return find_written(*text);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::contract

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/golden.h"

// An independent reader of TensorBoard event files. It shares no code with the writer under test.
namespace lockstep::testing {

// CRC-32C, computed bit by bit from its definition.
inline uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0x82f63b78U : crc >> 1U;
    }
  }
  return crc ^ 0xffffffffU;
}

// Reads numbers and bytes from the front of a protobuf message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool is_done() const { return rest_.empty(); }

  std::string_view take(size_t bytes) {
    if (rest_.size() < bytes) {
      throw std::runtime_error("unexpected end of the message");
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  template <typename Number>
  Number fixed() {
    Number number = 0;
    const std::string_view bytes = take(sizeof(number));
    std::memcpy(&number, bytes.data(), sizeof(number));  // both are little-endian
    return number;
  }

  uint64_t varint() {
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) {
        return number;
      }
    }
  }

 private:
  std::string_view rest_;
};

// One field of a protobuf message: a number or bytes, depending on its wire type.
struct WireField {
  uint64_t number = 0;     // wire types 0, 1 and 5
  std::string bytes = {};  // wire type 2
};

inline std::map<uint64_t, std::vector<WireField>> fields_of(std::string_view message) {
  std::map<uint64_t, std::vector<WireField>> fields;
  for (WireReader reader(message); !reader.is_done();) {
    const uint64_t key = reader.varint();
    WireField field;
    switch (key & 7U) {
      case 0:
        field.number = reader.varint();
        break;
      case 1:
        field.number = reader.fixed<uint64_t>();
        break;
      case 2:
        field.bytes = reader.take(reader.varint());
        break;
      case 5:
        field.number = reader.fixed<uint32_t>();
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields[key >> 3U].push_back(field);
  }
  return fields;
}

template <typename Number, typename Bits>
Number number_of(uint64_t field) {
  const auto bits = static_cast<Bits>(field);
  Number number = 0;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

struct FileEvent {
  double time = 0;
  int64_t step = 0;
  std::string version = {};
  bool is_restart = false;
  std::string tag = {};
  float value = 0;
  std::string plugin = {};
  std::string text = {};
};

inline FileEvent parse_file_event(std::string_view message) {
  auto fields = fields_of(message);
  FileEvent event;
  event.time = number_of<double, uint64_t>(fields.contains(1) ? fields[1][0].number : 0);
  event.step = static_cast<int64_t>(fields.contains(2) ? fields[2][0].number : 0);
  event.version = fields.contains(3) ? fields[3][0].bytes : "";
  event.is_restart = fields.contains(7) && fields_of(fields[7][0].bytes)[1][0].number == 1;
  if (!fields.contains(5)) {
    return event;
  }
  auto value = fields_of(fields_of(fields[5][0].bytes)[1][0].bytes);
  event.tag = value[1][0].bytes;
  if (value.contains(2)) {
    event.value = number_of<float, uint32_t>(value[2][0].number);
  } else {
    event.plugin = fields_of(fields_of(value[9][0].bytes)[1][0].bytes)[1][0].bytes;
    event.text = fields_of(value[8][0].bytes)[8][0].bytes;
  }
  return event;
}

// Returns all events of a file. Throws if a length or a checksum is wrong, or if the file is
// truncated.
inline std::vector<FileEvent> read_event_file(const std::filesystem::path& path) {
  const auto check = [](std::string_view bytes, uint32_t written) {
    const uint32_t crc = slow_crc32c(bytes);
    if (written != ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U) {
      throw std::runtime_error("wrong checksum");
    }
  };
  const std::string bytes = read_text(path);
  std::vector<FileEvent> events;
  for (WireReader reader(bytes); !reader.is_done();) {
    const std::string_view length = reader.take(8);
    check(length, reader.fixed<uint32_t>());
    const std::string_view message = reader.take(WireReader(length).fixed<uint64_t>());
    check(message, reader.fixed<uint32_t>());
    events.push_back(parse_file_event(message));
  }
  return events;
}

// Returns the event file in a directory; empty if there is none, or more than one.
inline std::filesystem::path find_event_file(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> found;
  std::error_code fault;
  for (std::filesystem::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    if (entry->path().extension() == ".lockstep") {
      found.push_back(entry->path());
    }
  }
  return found.size() == 1 ? found.front() : std::filesystem::path();
}

}  // namespace lockstep::testing

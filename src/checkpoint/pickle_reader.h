// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <unordered_map>
#include <vector>

#include "checkpoint/pickle_items.h"

namespace lockstep::checkpoint {

// Reads the pickle of a torch.save file. Knows the opcodes that plain values and tensors need, and
// half a dozen Python names, each with its meaning built in; all else is refused at its byte, so
// that nothing in a file can run code. What a file can make it use is bounded: deep nesting, too
// many items, and lists that contain themselves are refused.
class PickleReader {
 public:
  // `start` is the offset of `bytes` in `file`, for messages.
  PickleReader(std::string_view bytes,
               std::filesystem::path file,
               uint64_t start,
               LoadStorage load_storage);

  c10::IValue read();

 private:
  c10::IValue read_all();
  // Each does one opcode if it is of its kind, and tells whether it was.
  bool read_constant(uint8_t opcode);
  bool read_container(uint8_t opcode);
  bool read_memo(uint8_t opcode);
  bool read_object(uint8_t opcode);

  uint64_t number(size_t width);
  std::string text(uint64_t bytes);
  std::string line();

  void push(PickleItem item);
  void push_value(c10::IValue value);
  PickleItem pop();
  PickleItem& top();
  std::vector<PickleItem> pop_to_mark();
  std::vector<PickleItem> pop_many(size_t count);

  std::string_view bytes_;
  std::filesystem::path file_;
  uint64_t start_;
  LoadStorage load_storage_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  std::vector<PickleItem> stack_;
  std::unordered_map<uint64_t, PickleItem> memo_;
};

}  // namespace lockstep::checkpoint

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <torch/types.h>
#include <unordered_map>
#include <vector>

#include "training/checkpoint/pickle_items.h"

namespace lockstep::checkpoint {

// Reads the pickle of a torch.save file. It supports only the opcodes of plain values and tensors
// and a few Python names with built-in meanings, and rejects everything else with the byte offset.
// Therefore no file can execute code. Memory and recursion are bounded: deep nesting, too many
// items and lists that contain themselves are rejected.
class PickleReader {
 public:
  // `start` is the offset of `bytes` in `file`; used in messages only.
  PickleReader(std::string_view bytes,
               std::filesystem::path file,
               uint64_t start,
               LoadStorage load_storage);

  c10::IValue read();

 private:
  c10::IValue read_all();
  // Each executes the opcode if it belongs to its group, and returns whether it does.
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

// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "training/checkpoint/zip_archive.h"

// A pickle is a program for a machine with a stack and a memo (a table of items by number). Each
// opcode is one byte, followed by its argument; numbers are little-endian. torch.save writes a
// state dict {"w": tensor} as, for example:
//
//   PROTO 2                                  '\x80' 02
//   EMPTY_DICT, BINPUT 0                     '}' 'q' 00       [dict]
//   MARK                                     '('              [dict, mark]
//   BINUNICODE "w"                           'X' 01000000 w   [dict, mark, "w"]
//   GLOBAL torch._utils._rebuild_tensor_v2   'c' ...          [..., function]
//   MARK, MARK, "storage", GLOBAL torch.FloatStorage, "0", "cpu", 6, TUPLE
//   BINPERSID                                'Q'              [..., function, mark, storage]
//   0, (2, 3), (3, 1), False, OrderedDict(), TUPLE            [..., function, arguments]
//   REDUCE                                   'R'              [dict, mark, "w", tensor]
//   SETITEMS                                 'u'              [dict]
//   STOP                                     '.'
//
// Python executes REDUCE with any function that the file names; this is how a pickle runs code.
// Here GLOBAL accepts only the names in pickle_items.cpp and REDUCE calls only built-in
// equivalents.
//
// The comments name opcodes as in the pickletools module of Python; protocols 2 to 5.
namespace lockstep::checkpoint {

PickleReader::PickleReader(std::string_view bytes,
                           std::filesystem::path file,
                           uint64_t start,
                           LoadStorage load_storage)
    : bytes_(bytes),
      file_(std::move(file)),
      start_(start),
      load_storage_(std::move(load_storage)) {}

c10::IValue PickleReader::read() {
  try {
    return read_all();
  } catch (const PickleFault& fault) {
    refuse_at(file_, start_ + opcode_at_, fault.why);
  }
}

c10::IValue PickleReader::read_all() {
  constexpr uint8_t kStop = '.';
  for (;;) {
    opcode_at_ = at_;
    const auto opcode = static_cast<uint8_t>(number(1));
    if (opcode == kStop) {
      const PickleItem result = pop();
      if (!stack_.empty() || at_ != bytes_.size()) {
        refuse_pickle("there is data after the end of the pickle");
      }
      return plain(result);
    }
    if (!read_constant(opcode) && !read_container(opcode) && !read_memo(opcode) &&
        !read_object(opcode)) {
      refuse_pickle(fmt::format("pickle opcode 0x{:02x} is not supported", opcode));
    }
  }
}

bool PickleReader::read_constant(uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const uint64_t protocol = number(1);
      if (protocol < 2 || protocol > 5) {
        refuse_pickle(fmt::format("pickle protocol {} is not supported", protocol));
      }
      return true;
    }
    case 0x95:  // FRAME: a byte count, not needed here
      number(8);
      return true;
    case 'N':
      push_value({});
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      push_value(opcode == 0x88);
      return true;
    case 'K':  // BININT1
      push_value(static_cast<int64_t>(number(1)));
      return true;
    case 'M':  // BININT2
      push_value(static_cast<int64_t>(number(2)));
      return true;
    case 'J':  // BININT
      push_value(int64_t{static_cast<int32_t>(number(4))});
      return true;
    case 0x8a: {  // LONG1
      const uint64_t width = number(1);
      if (width > 8) {
        refuse_pickle("an integer has more than 64 bits");
      }
      // Two's complement of `width` bytes, extended to 64 bits by its sign. No bytes at all are 0.
      const uint64_t raw = number(width);
      const uint64_t sign = width == 0 || width == 8 ? 0 : (raw >> (8 * width - 1)) & 1;
      push_value(std::bit_cast<int64_t>(sign == 0 ? raw : raw | ~uint64_t{0} << (8 * width)));
      return true;
    }
    case 'G': {  // BINFLOAT, the only big-endian number
      const uint64_t raw = number(8);
      push_value(std::bit_cast<double>(__builtin_bswap64(raw)));
      return true;
    }
    case 'X':   // BINUNICODE
    case 0x8c:  // SHORT_BINUNICODE
    case 0x8d:  // BINUNICODE8
      push_value(text(number(opcode == 'X' ? 4 : opcode == 0x8c ? 1 : 8)));
      return true;
    default:
      return false;
  }
}

bool PickleReader::read_container(uint8_t opcode) {
  switch (opcode) {
    case '(':
      push({.kind = PickleItem::Kind::Mark});
      return true;
    case ')':
      push(new_tuple({}));
      return true;
    case ']':
      push(new_list());
      return true;
    case '}':
      push(new_dict());
      return true;
    case 't':
      push(new_tuple(pop_to_mark()));
      return true;
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      push(new_tuple(pop_many(opcode - size_t{0x84})));
      return true;
    case 'a':    // APPEND
    case 'e': {  // APPENDS
      const std::vector<PickleItem> items = opcode == 'a' ? pop_many(1) : pop_to_mark();
      append(top(), items);
      return true;
    }
    case 's':    // SETITEM
    case 'u': {  // SETITEMS
      const std::vector<PickleItem> items = opcode == 's' ? pop_many(2) : pop_to_mark();
      set_items(top(), items);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::read_memo(uint8_t opcode) {
  switch (opcode) {
    case 'q':  // BINPUT
    case 'r':  // LONG_BINPUT
      memo_.insert_or_assign(number(opcode == 'q' ? 1 : 4), top());
      return true;
    case 0x94:  // MEMOIZE: the number is that of the entries so far, as in Python
      memo_.insert_or_assign(memo_.size(), top());
      return true;
    case 'h':    // BINGET
    case 'j': {  // LONG_BINGET
      const auto found = memo_.find(number(opcode == 'h' ? 1 : 4));
      if (found == memo_.end()) {
        refuse_pickle("the pickle refers to an unknown memo entry");
      }
      push(found->second);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::read_object(uint8_t opcode) {
  switch (opcode) {
    case 'c': {  // GLOBAL
      const std::string module = line();
      push(global(module + "." + line()));
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const std::vector<PickleItem> names = pop_many(2);
      if (!names[0].value.isString() || !names[1].value.isString()) {
        refuse_pickle("a Python name is not a string");
      }
      push(global(names[0].value.toStringRef() + "." + names[1].value.toStringRef()));
      return true;
    }
    case 'Q':  // BINPERSID
      push(storage(pop(), load_storage_));
      return true;
    case 'R': {  // REDUCE
      const std::vector<PickleItem> parts = pop_many(2);
      push(call(parts[0], parts[1]));
      return true;
    }
    case 'b':  // BUILD: attributes of an OrderedDict, such as _metadata; not part of the value
      pop();
      if (!top().value.isGenericDict()) {
        refuse_pickle("the pickle sets attributes of an object that is not a dict");
      }
      return true;
    default:
      return false;
  }
}

// at_ <= bytes_.size() always holds, so the subtraction cannot wrap.
uint64_t PickleReader::number(size_t width) {
  if (bytes_.size() - at_ < width) {
    opcode_at_ = bytes_.size();
    refuse_pickle("the pickle ends early");
  }
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
  }
  at_ += width;
  return value;
}

std::string PickleReader::text(uint64_t bytes) {
  // Checked before the allocation: a damaged length must not request gigabytes.
  if (bytes_.size() - at_ < bytes) {
    refuse_pickle("a string is longer than the pickle");
  }
  std::string result(bytes_.substr(at_, bytes));
  at_ += bytes;
  return result;
}

std::string PickleReader::line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) {
    refuse_pickle("a Python name is not terminated");
  }
  std::string result(bytes_.substr(at_, end - at_));
  at_ = end + 1;
  return result;
}

void PickleReader::push(PickleItem item) {
  if (stack_.size() >= static_cast<size_t>(kMaxPickleItems)) {
    refuse_pickle(fmt::format("the pickle contains more than {} items", kMaxPickleItems));
  }
  stack_.push_back(std::move(item));
}

void PickleReader::push_value(c10::IValue value) {
  push({.value = std::move(value)});
}

PickleItem PickleReader::pop() {
  return std::move(pop_many(1).front());
}

PickleItem& PickleReader::top() {
  if (stack_.empty() || stack_.back().kind == PickleItem::Kind::Mark) {
    refuse_pickle("pickle stack underflow");
  }
  return stack_.back();
}

// The items above the topmost mark, which is removed too.
std::vector<PickleItem> PickleReader::pop_to_mark() {
  size_t count = 0;
  while (count < stack_.size() &&
         stack_[stack_.size() - 1 - count].kind != PickleItem::Kind::Mark) {
    ++count;
  }
  if (count == stack_.size()) {
    refuse_pickle("pickle stack underflow");
  }
  std::vector<PickleItem> items = pop_many(count);
  stack_.pop_back();
  return items;
}

// A mark is not an item: taking one would let a later pop_to_mark() consume items of an outer
// container.
std::vector<PickleItem> PickleReader::pop_many(size_t count) {
  const size_t left = stack_.size() - std::min(count, stack_.size());
  std::vector<PickleItem> items(
      std::make_move_iterator(stack_.begin() + static_cast<ptrdiff_t>(left)),
      std::make_move_iterator(stack_.end()));
  for (const PickleItem& item : items) {
    if (item.kind == PickleItem::Kind::Mark) {
      refuse_pickle("pickle stack underflow");
    }
  }
  if (items.size() < count) {
    refuse_pickle("pickle stack underflow");
  }
  stack_.resize(left);
  return items;
}

}  // namespace lockstep::checkpoint

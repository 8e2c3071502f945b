// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "deepspeed/json_tree.h"
#include "lockstep/error.h"

namespace lockstep::deepspeed {

// What lockstep does with a key.
enum class Treatment {
  Used,      // it decides something
  Harmless,  // nothing to do: always so here, or it speaks of what lockstep does not need
  Refused,   // lockstep has no such thing: only the value that asks for nothing is accepted
};

// One key of DeepSpeed's file. The table of them is the whole of what is accepted.
struct Key {
  enum class Type { Flag, Whole, Number, Text, Pair, Section, Any };

  std::string_view path;  // "zero_optimization.stage"
  Type type = Type::Any;
  Treatment treatment = Treatment::Used;
  // The values of a text, with blanks between them; empty: any.
  std::string_view choices = {};
  double least = 0;  // of a number
  bool may_be_auto = false;
  // Of a refused one: the value that asks for nothing, as JSON writes it; a section asks for
  // nothing if it is empty or has "enabled": false.
  std::string_view off = {};
  // Of a refused one: what there is instead.
  std::string_view instead = {};
  // The types of optimizer or scheduler, in small letters, that have this parameter; empty: all.
  std::string_view of = {};
  // Another spelling of the key; the first one counts.
  std::string_view alias = {};
};

std::span<const Key> keys();

// Throws an Error (64) that names key, place and remedy for the first key that is not in the table,
// has a wrong type or value, or asks for what lockstep does not have.
void require_schema(const Node& root, const std::string& source);

// The value of `path`, by whichever of its spellings; nullptr where there is none.
const Node* find(const Node& root, std::string_view path);

// "cannot use KEY in ds_config.json: WHY", with the place of `node`.
Error not_usable(const Node& node,
                 std::string_view path,
                 const std::string& source,
                 std::string_view why);

}  // namespace lockstep::deepspeed

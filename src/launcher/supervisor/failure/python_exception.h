// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::supervisor {

// A place in a Python program.
struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;  // empty: unknown

  bool operator==(const PythonFrame&) const = default;
};

// The exception that ended a Python worker.
struct PythonException {
  std::string text;  // "RuntimeError: shapes do not match"
  std::optional<PythonFrame> raised_at;
  // The nearest caller outside installed libraries; absent if raised_at is outside itself.
  std::optional<PythonFrame> called_from;

  bool operator==(const PythonException&) const = default;
};

// The last exception in these lines of a log, in the format of the interpreter or of torch, which
// adds "[rank3]: " before each line.
std::optional<PythonException> find_exception(std::span<const std::string> lines);

// The exception in a TORCHELASTIC_ERROR_FILE, which @record of torch writes: JSON with
// message.message and message.extraInfo.py_callstack. Nothing for other texts.
std::optional<PythonException> find_recorded_exception(std::string_view json);

}  // namespace lockstep::supervisor

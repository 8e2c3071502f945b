// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::agent {

// A place in a Python program.
struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;  // empty: not told

  bool operator==(const PythonFrame&) const = default;
};

// The exception by which a Python worker ended.
struct PythonException {
  std::string text;  // "RuntimeError: shapes do not match"
  std::optional<PythonFrame> raised_at;
  // The nearest caller that is no installed library; absent where raised_at is that itself.
  std::optional<PythonFrame> called_from;

  bool operator==(const PythonException&) const = default;
};

// The last exception that these lines of a log tell, in the forms of the interpreter and of torch,
// which puts "[rank3]: " before each line.
std::optional<PythonException> find_exception(std::span<const std::string> lines);

// The same from the text of a TORCHELASTIC_ERROR_FILE, as torch's @record writes it: JSON with
// message.message and message.extraInfo.py_callstack. Nothing when it is not that.
std::optional<PythonException> find_recorded_exception(std::string_view json);

}  // namespace lockstep::agent

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/contract/failure_report.h"

namespace lockstep::supervisor {

using contract::PythonException;
using contract::PythonFrame;

// The last exception in these lines of a log, in the format of the interpreter or of torch, which
// adds "[rank3]: " before each line.
std::optional<PythonException> find_exception(std::span<const std::string> lines);

// The exception in a TORCHELASTIC_ERROR_FILE, which @record of torch writes: JSON with
// message.message and message.extraInfo.py_callstack. Nothing for other texts.
std::optional<PythonException> find_recorded_exception(std::string_view json);

}  // namespace lockstep::supervisor

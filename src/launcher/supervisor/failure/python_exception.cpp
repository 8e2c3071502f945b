// SPDX-License-Identifier: Apache-2.0
//
// The format of the interpreter, in which the last line is the exception and the frames above it go
// from the outermost to the innermost call:
//
//   Traceback (most recent call last):
//     File "train.py", line 42, in main        <- called_from: innermost frame of the user's code
//       loss.backward()
//     File ".../site-packages/torch/_tensor.py", line 5, in backward      <- raised_at
//   RuntimeError: CUDA out of memory
//
// A log mixes the lines of several threads and of torch ("[rank3]: " before each line), so lines
// that do not fit are skipped.
#include "launcher/supervisor/failure/python_exception.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/text.h"

namespace lockstep::supervisor {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
// A longer text is usually a tensor in an error message.
constexpr size_t kMaxText = 2000;

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.';
}

// "package.Type: message", or "package.Type" for an exception without one. Types begin with a
// capital letter by convention. This excludes texts such as "warning: ...".
bool is_exception(std::string_view line) {
  const auto end = std::find_if_not(line.begin(), line.end(), is_name_letter);
  const std::string_view name = line.substr(0, static_cast<size_t>(end - line.begin()));
  const std::string_view type = name.substr(name.rfind('.') + 1);
  if (type.empty() || std::isupper(static_cast<unsigned char>(type.front())) == 0) {
    return false;
  }
  const std::string_view rest = line.substr(name.size());
  return rest.empty() || rest == ":" || rest.starts_with(": ");
}

// From `  File "train.py", line 42, in main`; a SyntaxError's frame has no function.
std::optional<PythonFrame> find_frame(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  if (!line.starts_with(kFile)) {
    return std::nullopt;
  }
  line.remove_prefix(kFile.size());
  const size_t file_end = line.find(kLine);
  if (file_end == std::string_view::npos) {
    return std::nullopt;
  }
  PythonFrame frame;
  frame.file = line.substr(0, file_end);
  line.remove_prefix(file_end + kLine.size());
  const size_t comma = line.find(kIn);
  const auto number = find_integer(line.substr(0, comma));
  if (!number) {
    return std::nullopt;
  }
  frame.line = static_cast<int>(*number);
  if (comma != std::string_view::npos) {
    frame.function = line.substr(comma + kIn.size());
  }
  return frame;
}

bool is_library(const std::string& file) {
  constexpr std::array<std::string_view, 4> kMarks = {
      "/site-packages/", "/dist-packages/", "/lib/python", "<frozen "};
  return std::any_of(kMarks.begin(), kMarks.end(), [&file](std::string_view mark) {
    return file.find(mark) != std::string::npos;
  });
}

// raised_at is where the exception came from; called_from is the user's line to look at. It is set
// only if it differs from raised_at.
PythonException make_exception(std::string_view text, const std::vector<PythonFrame>& frames) {
  PythonException exception;
  exception.text = text.substr(0, kMaxText);
  if (frames.empty()) {
    return exception;
  }
  exception.raised_at = frames.back();
  const auto own = std::find_if(frames.rbegin(), frames.rend(), [](const PythonFrame& frame) {
    return !is_library(frame.file);
  });
  if (own != frames.rbegin() && own != frames.rend()) {
    exception.called_from = *own;
  }
  return exception;
}

// Reads the frames of a traceback and the exception after them. Lines without `prefix`, and lines
// that are neither, come from other threads and are skipped.
std::optional<PythonException> find_after(std::span<const std::string> lines,
                                          std::string_view prefix) {
  std::vector<PythonFrame> frames;
  for (std::string_view line : lines) {
    if (!line.starts_with(prefix)) {
      continue;
    }
    line.remove_prefix(prefix.size());
    if (const auto frame = find_frame(line)) {
      frames.push_back(*frame);
    } else if (is_exception(line)) {
      return make_exception(line, frames);
    }
  }
  return std::nullopt;
}

// A syntax error has no traceback, only a location and a message.
std::optional<PythonException> find_syntax_error(std::span<const std::string> lines) {
  for (size_t at = lines.size(); at-- > 0;) {
    const bool is_one = lines[at].starts_with("SyntaxError: ") ||
                        lines[at].starts_with("IndentationError: ") ||
                        lines[at].starts_with("TabError: ");
    // The location is up to three lines above: location, source line, marker.
    for (size_t back = 1; is_one && back <= std::min<size_t>(at, 3); ++back) {
      if (const auto frame = find_frame(lines[at - back])) {
        return make_exception(lines[at], {*frame});
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PythonException> find_exception(std::span<const std::string> lines) {
  for (size_t at = lines.size(); at-- > 0;) {
    const std::string_view line = lines[at];
    const size_t start = line.find(kTraceback);
    if (start == std::string_view::npos) {
      continue;
    }
    // The last traceback may be incomplete if the worker was killed. An older one is not the cause.
    return find_after(lines.subspan(at + 1), line.substr(0, start));
  }
  return find_syntax_error(lines);
}

std::optional<PythonException> find_recorded_exception(std::string_view json) {
  using Json = nlohmann::json;
  const Json file = Json::parse(json, nullptr, false);
  if (!file.is_object() || !file.contains("message")) {
    return std::nullopt;
  }
  const Json& message = file["message"];
  if (message.is_string()) {
    return make_exception(message.get<std::string>(), {});
  }
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) {
    return std::nullopt;
  }
  PythonException exception = make_exception(message["message"].get<std::string>(), {});
  const Json::json_pointer stack("/extraInfo/py_callstack");
  if (message.contains(stack) && message[stack].is_string()) {
    const auto traced = find_exception(split(message[stack].get<std::string>(), '\n'));
    if (traced) {
      exception.raised_at = traced->raised_at;
      exception.called_from = traced->called_from;
    }
  }
  // One line for the box; the log contains the rest.
  exception.text.resize(std::min(exception.text.size(), exception.text.find('\n')));
  return exception;
}

}  // namespace lockstep::supervisor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

// The errors and exit codes of lockstep.
//
//   throw Error(ExitCode::Usage, "cannot train on a GPU: libtorch finds none")
//       .fact("requested", "--device cuda", "command line")
//       .hint("--device cpu");
namespace lockstep {

// Exit codes of lockstep and of training programs. Worker, agent and user rely on them: only
// TryAgain, or death by a signal that the agent did not send, leads to another attempt.
//
// The values 64 to 75 are those of sysexits.h; 130 is the shell's code for SIGINT.
enum class ExitCode {
  Done = 0,
  Usage = 64,        // invalid or conflicting options; a retry fails again
  Unavailable = 69,  // the cluster, a service or a peer is unavailable
  Bug = 70,          // internal error
  Io = 74,           // a file could not be read or written
  TryAgain = 75,     // peer lost, preempted, or stopped at a checkpoint
  Interrupted = 130,
};

// The error of a command, an attempt or a training step. Every error that lockstep reports to a
// user is an Error: one sentence, facts with their source, and hints that can be typed. The
// example above prints
//
//   cannot train on a GPU: libtorch finds none
//     requested: --device cuda  (command line)
//     try:       --device cpu
//
// Only the main functions of launcher and worker catch it; run() turns it into a message and an
// exit code. An Error is a value: copies are independent, and concurrent const calls are safe.
class Error : public std::exception {
 public:
  // `sentence` describes what failed and why, in one line without a full stop.
  Error(ExitCode code, std::string_view sentence);

  // Adds the line "label: value  (source)". `source` is the origin of the value: "command line",
  // a file, a variable. An empty `source` is omitted.
  Error& fact(std::string_view label, std::string_view value, std::string_view source = "") &;
  Error&& fact(std::string_view label, std::string_view value, std::string_view source = "") &&;

  // Adds the line "try: text". `text` is something that the user can type.
  Error& hint(std::string_view text) &;
  Error&& hint(std::string_view text) &&;

  // The arguments of the constructor.
  ExitCode code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

  // The sentence, followed by one indented line per fact and hint. Valid until the next call of
  // fact() or hint(), and as long as this Error.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  struct Line {
    std::string label;
    std::string text;
  };
  void render();

  ExitCode code_;
  std::string sentence_;
  std::vector<Line> lines_;
  std::string text_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// How a process of lockstep ends; part of the contract between worker, agent and user.
// Only TryAgain, or death by a signal that the agent did not send, asks for another attempt.
enum class ExitCode {
  Done = 0,
  Usage = 64,        // what was asked cannot be done; asking again will not help
  Unavailable = 69,  // the cluster, a service or a peer could not be had
  Bug = 70,          // a fault of ours
  Io = 74,           // a file could not be read or written
  TryAgain = 75,     // peer lost, preempted, stopped at a checkpoint
  Interrupted = 130,
};

// What a person must know when a command, an attempt or a step cannot go on.
//
// Says what failed in one sentence ("cannot ..."), the facts with the source of each, and what to
// type instead. Caught in few places (the two mains), never in silence.
class Error : public std::exception {
 public:
  Error(ExitCode code, std::string_view sentence);

  // Adds "label: value  (source)"; `source` tells where the value was learnt.
  Error& fact(std::string_view label, std::string_view value, std::string_view source = "") &;
  Error&& fact(std::string_view label, std::string_view value, std::string_view source = "") &&;

  // Adds "try: text", something that one can type.
  Error& hint(std::string_view text) &;
  Error&& hint(std::string_view text) &&;

  ExitCode code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

  // The sentence, then one indented line per fact and hint.
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

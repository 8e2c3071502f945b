// SPDX-License-Identifier: Apache-2.0
//
// A scanner for one property: where the first command of a shell text ends, and what its first word
// is. It follows quotes, escapes, substitutions and redirections, but expands nothing, so that it
// never runs code. It errs on the side of accepting: shell syntax that it does not know (here
// documents, case) passes, and bash itself reports mistakes in the job.
#include "launcher/slurm/shell_command.h"

namespace lockstep::slurm {
namespace {

// Scans shell code with the quoting rules of bash, without expansions.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  ShellCommand scan() {
    while (at_ < text_.size()) {
      step();
    }
    return std::move(found_);
  }

 private:
  char peek(size_t further) const {
    return at_ + further < text_.size() ? text_[at_ + further] : '\0';
  }

  void step() {
    switch (text_[at_]) {
      case '\'':
      case '"':
      case '`':
        take_quoted(text_[at_]);
        break;
      case '\\':
        take_escaped();
        break;
      case '$':
        take_dollar();
        break;
      case '&':
      case '|':
        take_operator();
        break;
      case ';':
      case '\n':
        separate(text_[at_] == ';' ? ";" : "a line break");
        ++at_;
        break;
      case ' ':
      case '\t':
        end_word();
        ++at_;
        break;
      default:
        keep(text_[at_++]);
    }
  }

  void keep(char letter) {
    if (!is_first_over_) {
      found_.first_word += letter;
    }
  }

  void end_word() { is_first_over_ = is_first_over_ || !found_.first_word.empty(); }

  void separate(const char* by) {
    end_word();
    if (found_.separator.empty()) {
      found_.separator = by;
    }
  }

  // Within single quotes a backslash is an ordinary character.
  void take_quoted(char quote) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return;
      }
      if (text_[at_] == '\\' && quote != '\'') {
        ++at_;
      }
      keep(at_ < text_.size() ? text_[at_] : ' ');
    }
    found_.has_open_quote = true;
  }

  // A line continuation counts as a blank.
  void take_escaped() {
    if (peek(1) == '\n') {
      end_word();
    } else if (peek(1) != '\0') {
      keep(peek(1));
    }
    at_ += 2;
  }

  // Skips over ${...} and $(...): separators inside do not start another command.
  void take_dollar() {
    const char opening = peek(1);
    keep(text_[at_++]);
    if (opening != '(' && opening != '{') {
      return;
    }
    int depth = 0;
    do {
      depth += text_[at_] == opening ? 1 : 0;
      depth -= text_[at_] == (opening == '(' ? ')' : '}') ? 1 : 0;
      keep(text_[at_++]);
    } while (depth > 0 && at_ < text_.size());
    found_.has_open_quote = found_.has_open_quote || depth > 0;
  }

  // 2>&1, &>file and >|file are redirections, not separators.
  void take_operator() {
    const char letter = text_[at_];
    const char before = at_ == 0 ? '\0' : text_[at_ - 1];
    const bool is_double = peek(1) == letter;
    if (before == '>' || before == '<' || (letter == '&' && peek(1) == '>')) {
      keep(letter);
    } else if (letter == '&') {
      separate(is_double ? "&&" : "&");
    } else if (is_double) {
      separate("||");
    } else {
      end_word();
      found_.has_pipe = true;
      at_ += peek(1) == '&' ? 1 : 0;  // |& is one pipe
    }
    at_ += is_double ? 2 : 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool is_first_over_ = false;
  ShellCommand found_;
};

}  // namespace

ShellCommand look_at_command(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return Scanner(text.substr(0, end == std::string_view::npos ? 0 : end + 1)).scan();
}

}  // namespace lockstep::slurm

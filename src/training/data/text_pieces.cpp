// SPDX-License-Identifier: Apache-2.0
#include "training/data/text_pieces.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "common/base/check.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// The pattern of GPT-2 (encoder.py). It cuts a text into words with the space before them, numbers,
// runs of other characters and white space; tokens never cross these borders. In white space before
// a word, the last space is left to the word (the lookahead). White space is defined as in
// JavaScript, because the reference is a JavaScript package. \s of PCRE2 differs: it includes
// U+0085 and U+180E, and excludes U+FEFF (byte order mark).
constexpr const char* kPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^WHITE\p{L}\p{N}]+|[WHITE]+(?![^WHITE])|[WHITE]+)";
constexpr const char* kWhite =
    R"(\t\n\x{0b}\x{0c}\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff})";

std::string pattern() {
  std::string text = kPattern;
  for (size_t at = text.find("WHITE"); at != std::string::npos; at = text.find("WHITE")) {
    text.replace(at, 5, kWhite);
  }
  return text;
}

}  // namespace

struct Cutter::Pattern {
  struct Delete {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };

  std::unique_ptr<pcre2_code, Delete> code;
  std::unique_ptr<pcre2_match_data, Delete> match;
};

Cutter::Cutter() : pattern_(std::make_unique<Pattern>()) {
  const std::string text = pattern();
  int fault = 0;
  PCRE2_SIZE where = 0;
  pattern_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()),
                                     text.size(),
                                     PCRE2_UTF | PCRE2_UCP,
                                     &fault,
                                     &where,
                                     nullptr));
  LOCKSTEP_CHECK(pattern_->code != nullptr);
  // An error is ignored: matching without JIT gives the same result, more slowly.
  static_cast<void>(pcre2_jit_compile(pattern_->code.get(), PCRE2_JIT_COMPLETE));
  pattern_->match.reset(pcre2_match_data_create_from_pattern(pattern_->code.get(), nullptr));
}

Cutter::~Cutter() = default;

void Cutter::cut(std::string_view text, const std::function<void(std::string_view)>& take) const {
  uint32_t options = 0;  // the first match validates the entire text as UTF-8
  for (size_t at = 0; at < text.size();) {
    const int found = pcre2_match(pattern_->code.get(),
                                  reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(),
                                  at,
                                  options,
                                  pattern_->match.get(),
                                  nullptr);
    if (found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21) {
      throw Error(ExitCode::Io, "cannot tokenize: the text is not valid UTF-8")
          .fact("first invalid byte", std::to_string(pcre2_get_startchar(pattern_->match.get())))
          .hint("iconv -f latin1 -t utf-8 FILE");
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(pattern_->match.get());
    LOCKSTEP_CHECK(found > 0 && span[0] == at && span[1] > at);
    take(text.substr(at, span[1] - at));
    at = span[1];
    options = PCRE2_NO_UTF_CHECK;
  }
}

}  // namespace lockstep::data

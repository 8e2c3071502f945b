// SPDX-License-Identifier: Apache-2.0
//
// nlohmann's SAX interface, with two additions for messages: the position of each value, from a
// counting iterator, and reasons and hints for common mistakes (comments, trailing commas, single
// quotes, Python literals).
//
// The value of a map entry has the position of its key, which is the last position that key() has
// recorded. A value in a list has the position of the list.
#include "common/document/json.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/document/builder.h"
#include "lockstep/error.h"

namespace lockstep::document {
namespace {

// Converts offsets, in ascending order, to lines and columns. Each character is counted once.
class LineCounter {
 public:
  LineCounter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Position at(size_t offset) {
    const size_t end = std::max(counted_, std::min(offset, text_.size()));
    for (; counted_ < end; ++counted_) {
      if (text_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
    return {.file = file_, .line = line_, .column = static_cast<int>(end - line_start_) + 1};
  }

 private:
  std::string_view text_;
  const std::string& file_;
  size_t counted_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

// The parser does not provide positions. This iterator counts the characters that it has read.
class CountingIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the standard library's names.
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  CountingIterator(const char* at, size_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* read_;
};

// A hint for a syntax error. `rest` begins with the offending token, `before` is the text before
// it.
std::string advice_on(std::string_view before, std::string_view rest) {
  const std::string_view done = trim(before);
  if (rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with("#")) {
    return "remove the comment: JSON has none";
  }
  if (done.ends_with(',') && (rest.starts_with("}") || rest.starts_with("]"))) {
    return "remove the comma after the last entry";
  }
  if (rest.starts_with("'")) {
    return "use double quotes: \"...\"";
  }
  if (rest.starts_with("True") || rest.starts_with("False") || rest.starts_with("None")) {
    return "write true, false or null";
  }
  return "";
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

// One past the end of the token at `start`.
size_t token_end(std::string_view text, size_t start) {
  size_t end = start + 1;
  if (text[start] == '"') {
    while (end < text.size() && text[end] != '"' && text[end] != '\n') {
      end += text[end] == '\\' ? 2 : 1;
    }
    return std::min(text.size(), end + 1);
  }
  while (is_word(text[start]) && end < text.size() && is_word(text[end])) {
    ++end;
  }
  return end;
}

// Start of the token that contains the character at `offset`. The parser only reports how far it
// has read. Scans from the beginning: whether a quote opens or closes a string is not known from
// its surroundings.
size_t token_start(std::string_view text, size_t offset) {
  size_t start = 0;
  while (start < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[start])) != 0) {
      ++start;
      continue;
    }
    const size_t end = token_end(text, start);
    if (offset < end) {
      return start;
    }
    start = end;
  }
  return text.size();
}

// Extracts "unexpected '}'; expected string literal" from the long message of nlohmann. Omits the
// text that was read last: it does not help, and can contain line breaks.
std::string reason_of(const std::string& sentence, std::string_view token) {
  const size_t cut = sentence.find(" - ");
  if (cut == std::string::npos) {
    return fmt::format("number '{}' is out of range", token);
  }
  const size_t last_read = sentence.find("; last read: ");
  if (last_read == std::string::npos) {
    return sentence.substr(cut + 3);
  }
  std::string reason = sentence.substr(cut + 3, last_read - cut - 3);
  reason = reason == "invalid literal" ? fmt::format("unexpected '{}'", token) : reason;
  const size_t expected = sentence.rfind("; expected ");
  return expected == std::string::npos ? reason : reason + sentence.substr(expected);
}

// Receives the callbacks of the parser.
class Handler {
 public:
  Handler(std::string_view text, const std::string& file, const size_t& read)
      : text_(text), read_(read), lines_(text, file), position_(lines_.at(0)) {}

  TreeNode take() { return builder_.take(); }

  bool null() { return put({}); }
  bool boolean(bool value) {
    TreeNode node;
    node.kind = TreeNode::Kind::Flag;
    node.flag = value;
    return put(std::move(node));
  }
  bool number_integer(int64_t value) {
    TreeNode node;
    node.kind = TreeNode::Kind::Whole;
    node.whole = value;
    node.number = static_cast<double>(value);
    return put(std::move(node));
  }
  bool number_unsigned(uint64_t value) {
    return std::in_range<int64_t>(value) ? number_integer(static_cast<int64_t>(value))
                                         : number_float(static_cast<double>(value), "");
  }
  bool number_float(double value, const std::string& /*text*/) {
    TreeNode node;
    node.kind = TreeNode::Kind::Number;
    node.number = value;
    // Numbers such as 5e8 are commonly used for integers.
    constexpr double kMaxExact = 9007199254740992.0;
    if (value > -kMaxExact && value < kMaxExact &&
        value == static_cast<double>(static_cast<int64_t>(value))) {
      node.kind = TreeNode::Kind::Whole;
      node.whole = static_cast<int64_t>(value);
    }
    return put(std::move(node));
  }
  bool string(std::string& value) {
    TreeNode node;
    node.kind = TreeNode::Kind::Text;
    node.text = value;
    return put(std::move(node));
  }
  bool binary(std::vector<uint8_t>& /*value*/) { return false; }

  bool start_object(size_t /*size*/) { return open(TreeNode::Kind::Map); }
  bool start_array(size_t /*size*/) { return open(TreeNode::Kind::List); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    // The parser has read up to the closing quote of the key.
    const size_t opening = text_.rfind('"', read_ - 2);
    position_ = lines_.at(opening == std::string_view::npos ? 0 : opening);
    builder_.key(name, position_);
    return true;
  }

  bool parse_error(size_t position,
                   const std::string& /*last_token*/,
                   const nlohmann::detail::exception& fault) {
    const std::string sentence = fault.what();
    const bool is_at_end = sentence.find("unexpected end of input") != std::string::npos;
    const size_t start =
        is_at_end ? text_.size() : token_start(text_, std::max<size_t>(position, 1) - 1);
    const std::string_view token =
        start < text_.size() ? text_.substr(start, token_end(text_, start) - start) : "";
    Error error = not_read(reason_of(sentence, token), lines_.at(start));
    if (const auto advice = advice_on(text_.substr(0, start), text_.substr(start));
        !advice.empty()) {
      error.hint(advice);
    }
    throw Error(error);
  }

 private:
  bool open(TreeNode::Kind kind) {
    builder_.open(kind, position_);
    return true;
  }

  // position_ returns to that of the container, so that the next value of a list does not inherit
  // the position of a key inside of the previous one.
  bool close() {
    position_ = builder_.close().position;
    return true;
  }

  bool put(TreeNode node) {
    node.position = position_;
    builder_.put(std::move(node));
    return true;
  }

  std::string_view text_;
  const size_t& read_;
  LineCounter lines_;
  Position position_;
  TreeBuilder builder_;
};

}  // namespace

TreeNode parse_json(std::string_view text, const std::string& file, std::string_view example) {
  require_size(text, file);
  size_t read = 0;
  Handler handler(text, file, read);
  // The parser would report an empty file as "unexpected end of input", which is less clear.
  if (trim(text).empty()) {
    throw Error(ExitCode::Usage, fmt::format("cannot read {}: the file is empty", file))
        .hint(example);
  }
  const CountingIterator begin(text.data(), &read);
  const CountingIterator end(text.data() + text.size(), &read);
  nlohmann::json::sax_parse(begin, end, &handler);
  return handler.take();
}

}  // namespace lockstep::document

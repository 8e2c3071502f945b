// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The byte-pair encoding of GPT-2: converts text to tokens and back, without loss.
//
//   Tokenizer tokenizer(session.data_dir() / "gpt2");
//   const auto tokens = tokenizer.encode("Hello world");
//   tokenizer.decode(tokens);  // "Hello world"
//
// White space is defined as in JavaScript, as in the original implementation of the vocabulary.
// Other implementations may split differently around U+0085 and U+FEFF (byte order mark).
//
// Not thread-safe: encode() caches the words that it has seen. Use one Tokenizer per thread.
class Tokenizer {
 public:
  // Reads encoder.json and vocab.bpe from `folder`, or vocab.json and merges.txt, the names that
  // Hugging Face uses. Throws an Error that names the file and the invalid line.
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Returns the tokens of `text`, which must be UTF-8. Throws an Error with the offset of the first
  // invalid byte. "<|endoftext|>" has no special meaning in `text`.
  std::vector<int32_t> encode(std::string_view text);

  // Returns the bytes of the tokens. The result is UTF-8 if `tokens` is a complete result of
  // encode(). Throws an Error for a token outside the vocabulary.
  std::string decode(const std::vector<int32_t>& tokens) const;

  // Number of tokens in the vocabulary; tokens are 0 to vocabulary_size() - 1.
  int32_t vocabulary_size() const;

  // The token that separates two texts: "<|endoftext|>".
  int32_t end_of_text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

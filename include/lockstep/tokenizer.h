// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// GPT-2's byte-pair encoding: text to numbers and back, without loss. White space is that of the
// vocabulary's own package, JavaScript's: around U+0085 and U+FEFF, a byte order mark, other
// programs may cut differently.
//
// Not for several threads at once: it remembers the words that it has seen.
class Tokenizer {
 public:
  // `folder` holds encoder.json and vocab.bpe, or vocab.json and merges.txt as Hugging Face calls
  // them. Throws an Error that names the file and the line that is not what it should be.
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // The numbers of `text`, which must be UTF-8; throws an Error that names the first byte that is
  // not. "<|endoftext|>" in it is text like any other.
  std::vector<int32_t> encode(std::string_view text);

  // The bytes behind the numbers: UTF-8 again where they are all that encode() gave. Throws an
  // Error for a number that is not in the vocabulary.
  std::string decode(const std::vector<int32_t>& tokens) const;

  int32_t vocabulary_size() const;

  // What stands between two texts: "<|endoftext|>".
  int32_t end_of_text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

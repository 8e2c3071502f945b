// SPDX-License-Identifier: Apache-2.0
#include "training/data/vocabulary.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

struct Files {
  std::filesystem::path words;
  std::filesystem::path merges;
};

Files find_files(const std::filesystem::path& folder) {
  const std::array<Files, 2> kinds = {
      Files{folder / "encoder.json", folder / "vocab.bpe"},
      Files{folder / "vocab.json", folder / "merges.txt"},
  };
  for (const Files& files : kinds) {
    std::error_code unknown;
    if (std::filesystem::exists(files.words, unknown) &&
        std::filesystem::exists(files.merges, unknown)) {
      return files;
    }
  }
  throw Error(ExitCode::Io, fmt::format("cannot find a vocabulary in {}", folder.string()))
      .fact("missing", "encoder.json and vocab.bpe, or vocab.json and merges.txt")
      .hint("lockstep data fetch gpt2");
}

// In vocabulary files of GPT-2, bytes that are not printable Latin-1 characters are written as the
// code points from 256 on, in ascending order (bytes_to_unicode() in its encoder.py).
std::array<char32_t, 256> code_points() {
  std::array<char32_t, 256> points{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= U'!' && byte <= U'~') || (byte >= 0xa1 && byte != 0xad);
    points.at(byte) = is_printable ? byte : next++;
  }
  return points;
}

// Converts code points below 2048 back to bytes; nothing if a code point represents no byte. The
// text is UTF-8: code points from 128 to 2047 are two bytes, 110xxxxx 10xxxxxx. Larger ones cannot
// occur.
class Unwrap {
 public:
  Unwrap() {
    const auto points = code_points();
    for (size_t byte = 0; byte < points.size(); ++byte) {
      bytes_[points.at(byte)] = static_cast<char>(byte);
    }
  }

  std::optional<std::string> operator()(std::string_view text) const {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
      auto point = static_cast<char32_t>(static_cast<unsigned char>(text[i]));
      if (point >= 0xc0 && point < 0xe0 && i + 1 < text.size()) {
        point = (point & 0x1fU) << 6U | (static_cast<unsigned char>(text[++i]) & 0x3fU);
      }
      const auto found = bytes_.find(point);
      if (found == bytes_.end()) {
        return std::nullopt;
      }
      bytes += found->second;
    }
    return bytes;
  }

 private:
  std::unordered_map<char32_t, char> bytes_;
};

[[noreturn]] void refuse(const std::filesystem::path& file,
                         const std::string& why,
                         const std::string& found,
                         const std::string& where = "") {
  throw Error(ExitCode::Io, fmt::format("cannot use {}: {}", file.string(), why))
      .fact("found", found, where)
      .hint("lockstep data fetch gpt2");
}

nlohmann::json parse(const std::filesystem::path& file) {
  nlohmann::json words = nlohmann::json::parse(os::read_file(file), nullptr, false);
  if (!words.is_object() || words.empty()) {
    refuse(file, "it is not a JSON object of tokens and ids", words.type_name());
  }
  return words;
}

// The ids must be 0 to n - 1, each exactly once.
std::unordered_map<std::string, int32_t> read_words(const std::filesystem::path& file,
                                                    Vocabulary& vocabulary) {
  const Unwrap unwrap;
  const nlohmann::json words = parse(file);
  std::unordered_map<std::string, int32_t> numbers;
  std::vector<bool> seen(words.size());
  vocabulary.bytes.resize(words.size());
  for (const auto& [word, number] : words.items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= words.size() ||
        seen[number.get<size_t>()]) {
      refuse(file,
             fmt::format("token ids must be 0 to {}, each exactly once", words.size() - 1),
             fmt::format("'{}': {}", word, number.dump()));
    }
    const auto token = number.get<int32_t>();
    seen[static_cast<size_t>(token)] = true;
    // Not in the encoding of bytes, and not in `numbers`: the text "<|endoftext|>" in a document
    // must not become this token.
    if (word == kEndOfText) {
      vocabulary.end_of_text = token;
      vocabulary.bytes[static_cast<size_t>(token)] = word;
      continue;
    }
    const std::optional<std::string> bytes = unwrap(word);
    if (!bytes) {
      refuse(file, "a token has a character that represents no byte", fmt::format("'{}'", word));
    }
    vocabulary.bytes[static_cast<size_t>(token)] = *bytes;
    numbers.emplace(*bytes, token);
  }
  if (vocabulary.end_of_text < 0) {
    refuse(file, fmt::format("it has no {}", kEndOfText), fmt::format("{} tokens", words.size()));
  }
  // Every byte must have a token of its own: merges start from single bytes, so that any text can
  // be encoded without an unknown token.
  for (size_t byte = 0; byte < vocabulary.of_byte.size(); ++byte) {
    const auto found = numbers.find(std::string(1, static_cast<char>(byte)));
    if (found == numbers.end()) {
      refuse(file, "a byte has no token", fmt::format("byte {}", byte));
    }
    vocabulary.of_byte.at(byte) = found->second;
  }
  return numbers;
}

// A line "LEFT RIGHT" allows one merge; earlier lines have priority. The key of a merge is the pair
// of token ids, which is faster to look up than the texts.
void read_merges(const std::filesystem::path& file,
                 const std::unordered_map<std::string, int32_t>& numbers,
                 Vocabulary& vocabulary) {
  const Unwrap unwrap;
  const std::string text = os::read_file(file);
  const auto token_of = [&](std::string_view word) -> std::optional<int32_t> {
    const std::optional<std::string> bytes = unwrap(word);
    const auto found = bytes ? numbers.find(*bytes) : numbers.end();
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  };
  int32_t rank = 0;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || (number == 1 && line.starts_with("#version"))) {
      continue;
    }
    const size_t space = line.find(' ');
    const auto left = token_of(line.substr(0, space));
    const auto right =
        space == std::string_view::npos ? std::nullopt : token_of(line.substr(space + 1));
    const auto both = left && right ? numbers.find(vocabulary.bytes[static_cast<size_t>(*left)] +
                                                   vocabulary.bytes[static_cast<size_t>(*right)])
                                    : numbers.end();
    if (both == numbers.end()) {
      refuse(file,
             "a line must contain two tokens whose concatenation is a token",
             fmt::format("'{}'", line),
             fmt::format("line {}", number));
    }
    vocabulary.merges.emplace(merge_key(*left, *right), Merge{rank, both->second});
    ++rank;
  }
}

}  // namespace

Vocabulary read_vocabulary(const std::filesystem::path& folder) {
  const Files files = find_files(folder);
  Vocabulary vocabulary;
  read_merges(files.merges, read_words(files.words, vocabulary), vocabulary);
  return vocabulary;
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <unordered_map>

#include "lockstep/error.h"
#include "training/data/text_pieces.h"
#include "training/data/vocabulary.h"

namespace lockstep {
namespace {

// Size of the cache of encoded pieces. Most texts consist of a few thousand different words. The
// cache is cleared when it is full.
constexpr size_t kMaxKnown = 1'000'000;
constexpr size_t kMaxKnownBytes = 64;

}  // namespace

struct Tokenizer::State {
  // Allows a lookup by string_view without a copy.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  data::Vocabulary vocabulary;
  data::Cutter cutter;
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> known;
  std::vector<int32_t> work;

  // Byte pair encoding (Sennrich et al. 2016, GPT-2's encoder.py): starts with single bytes, and
  // merges all occurrences of the adjacent pair with the lowest rank, until no pair has one.
  // Quadratic in the length of a piece, but pieces are words: most have a few letters, and `known`
  // caches them.
  void merge(std::string_view piece) {
    work.clear();
    for (const char letter : piece) {
      work.push_back(vocabulary.of_byte.at(static_cast<unsigned char>(letter)));
    }
    while (work.size() > 1) {
      data::Merge best{.rank = std::numeric_limits<int32_t>::max(), .token = -1};
      uint64_t best_key = 0;
      for (size_t i = 0; i + 1 < work.size(); ++i) {
        const uint64_t key = data::merge_key(work[i], work[i + 1]);
        const auto found = vocabulary.merges.find(key);
        if (found != vocabulary.merges.end() && found->second.rank < best.rank) {
          best = found->second;
          best_key = key;
        }
      }
      if (best.token < 0) {
        return;
      }
      size_t to = 0;
      for (size_t from = 0; from < work.size(); ++to) {
        const bool is_pair =
            from + 1 < work.size() && data::merge_key(work[from], work[from + 1]) == best_key;
        work[to] = is_pair ? best.token : work[from];
        from += is_pair ? 2 : 1;
      }
      work.resize(to);
    }
  }

  void append(std::string_view piece, std::vector<int32_t>& all) {
    const auto found = known.find(piece);
    if (found != known.end()) {
      all.insert(all.end(), found->second.begin(), found->second.end());
      return;
    }
    merge(piece);
    all.insert(all.end(), work.begin(), work.end());
    if (piece.size() <= kMaxKnownBytes) {
      if (known.size() >= kMaxKnown) {
        known.clear();
      }
      known.emplace(piece, work);
    }
  }
};

Tokenizer::Tokenizer(const std::filesystem::path& folder) : state_(std::make_unique<State>()) {
  state_->vocabulary = data::read_vocabulary(folder);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text) {
  std::vector<int32_t> all;
  all.reserve(text.size() / 3);
  state_->cutter.cut(text, [&](std::string_view piece) { state_->append(piece, all); });
  return all;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_size()) {
      throw Error(ExitCode::Usage, fmt::format("cannot decode token {}", token))
          .fact("available", fmt::format("0 to {}", vocabulary_size() - 1));
    }
    text += state_->vocabulary.bytes[static_cast<size_t>(token)];
  }
  return text;
}

int32_t Tokenizer::vocabulary_size() const {
  return static_cast<int32_t>(state_->vocabulary.bytes.size());
}

int32_t Tokenizer::end_of_text() const {
  return state_->vocabulary.end_of_text;
}

}  // namespace lockstep

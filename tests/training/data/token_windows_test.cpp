// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <gmock/gmock.h>
#include <numeric>

#include "common/os/files.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "training/data/token_file.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TokenWindows : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, int32_t first, int32_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), first);
    data::write_tokens(directory_.path() / name, tokens);
    return directory_.path() / name;
  }

  std::filesystem::path write_bytes(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_.path() / name, std::ios::binary) << bytes;
    return directory_.path() / name;
  }

  static std::vector<int64_t> values(const torch::Tensor& tensor) {
    const torch::Tensor flat = tensor.contiguous();
    return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
  }

  os::TemporaryDirectory directory_;
};

TEST_F(TokenWindows, LieEndToEndWithTheTargetOneFurtherOn) {
  const auto windows = token_windows({write("a", 0, 10), write("b", 60000, 5)}, 4);
  ASSERT_EQ(windows->size(), 3);
  EXPECT_THAT(windows->files(), ElementsAre(0, 2));
  EXPECT_THAT(values(windows->example(0).input), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values(windows->example(0).target), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(windows->example(1).input), ElementsAre(4, 5, 6, 7));
  const Batch batch = windows->batch(std::vector<int64_t>{2, 0});
  EXPECT_THAT(values(batch.input), ElementsAre(60000, 60001, 60002, 60003, 0, 1, 2, 3));
  EXPECT_THAT(values(batch.target), ElementsAre(60001, 60002, 60003, 60004, 1, 2, 3, 4));
  EXPECT_THROW(windows->example(3), Error);
}

TEST_F(TokenWindows, AreFoundByTheBeginningOfTheirNames) {
  write("t_train_000000.bin", 0, 9);
  write("t_train_000001.bin", 100, 5);
  write("t_train_000003.bin", 0, 90);
  const std::filesystem::path prefix = directory_.path() / "t";
  EXPECT_EQ(texts(prefix, 4).train->size(), 3);
  EXPECT_EQ(texts(prefix, 4).test, nullptr);
  write("t_val_000000.bin", 0, 13);
  EXPECT_EQ(texts(prefix, 4).test->size(), 3);
  EXPECT_THAT([&] { texts(directory_.path() / "x", 4); },
              ThrowsMessage<Error>(HasSubstr("missing: " + (directory_.path() / "x").string() +
                                             "_train_000000.bin\n")));
}

TEST_F(TokenWindows, ReadTheBareNumbersOfNanoGpt) {
  const auto windows =
      token_windows({write_bytes("train.bin", std::string("\x01\x00\x02\x01\x03\x00", 6))}, 2);
  EXPECT_THAT(values(windows->example(0).input), ElementsAre(1, 258));
  EXPECT_THAT(values(windows->example(0).target), ElementsAre(258, 3));
}

TEST_F(TokenWindows, OfAFileWithAFaultAreRefusedWithItsPlace) {
  const std::string whole = os::read_file(write("whole", 0, 10));
  const auto error = [&](const std::string& bytes) {
    const std::filesystem::path file = write_bytes("bad", bytes);
    try {
      token_windows({file}, 4);
    } catch (const Error& fault) {
      return std::string(fault.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(whole.substr(0, whole.size() - 1)),
              HasSubstr("it ends too early\n"
                        "  byte:     1043\n"
                        "  found:    1043 bytes\n"
                        "  expected: 1044 bytes, for 10 tokens"));
  EXPECT_THAT(error(whole + "xx"), HasSubstr("there is data after its last token"));
  std::string other = whole;
  other[4] = 7;
  EXPECT_THAT(error(other),
              HasSubstr("it has an unsupported version\n  byte:     4\n  found:    7"));
  EXPECT_THAT(error("abc"), HasSubstr("it is not a file of 16-bit tokens"));
  EXPECT_THAT(error(whole.substr(0, 100)), HasSubstr("it ends inside its header"));
  EXPECT_THAT(error(std::string("\xa1\xd9\x34\x01", 4) + whole.substr(4)),
              HasSubstr("it contains 32-bit tokens"));
  EXPECT_EQ(error(std::string("\x1f\x8b") + std::string(20, '\1')), "") << "no gzip";
  EXPECT_THAT([&] { token_windows({write("any", 0, 4)}, 0); },
              ThrowsMessage<Error>(HasSubstr("windows of 0 tokens")));
  EXPECT_THAT([&] { token_windows({write("short", 0, 4)}, 4); },
              ThrowsMessage<Error>(HasSubstr("windows of 4 tokens: all are shorter")));
  EXPECT_THAT([&] { write("large", 65535, 2); },
              ThrowsMessage<Error>(HasSubstr("cannot write token 65536")));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "common/contract/unprinted_error.h"

#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::contract {
namespace {

using ::testing::Optional;

class UnprintedError : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "rank-3.error"; }
  WorkerSpec spec() const {
    WorkerSpec spec;
    spec.error_file = path().string();
    return spec;
  }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(UnprintedError, IsReadBack) {
  const std::string text = "cannot read 'a\xff'\n  byte: 0  (\"file\")";

  EXPECT_TRUE(write_unprinted_error(spec(), "an earlier one"));
  EXPECT_TRUE(write_unprinted_error(spec(), text));

  EXPECT_THAT(find_unprinted_error(path()),
              Optional(std::string("cannot read 'a\ufffd'\n  byte: 0  (\"file\")")));
}

TEST_F(UnprintedError, MustBePrintedIfNoAgentReadsIt) {
  EXPECT_FALSE(write_unprinted_error({}, "x"));
}

TEST_F(UnprintedError, MustBePrintedIfItCannotBeWritten) {
  WorkerSpec spec;
  spec.error_file = (path() / "no-such-directory").string();

  EXPECT_FALSE(write_unprinted_error(spec, "x"));
}

TEST_F(UnprintedError, IsNotTheExceptionOfAPythonWorker) {
  EXPECT_EQ(find_unprinted_error(path()), std::nullopt);
  EXPECT_EQ(find_unprinted_error(""), std::nullopt);
  for (const char* text : {R"({"message": {"message": "ValueError: x"}})", "[1]", "{", ""}) {
    os::write_file(path(), text);

    EXPECT_EQ(find_unprinted_error(path()), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::contract

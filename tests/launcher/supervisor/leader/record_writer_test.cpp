// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/record_writer.h"

#include <filesystem>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordsTest : public ::testing::Test {
 protected:
  static Recorded sample_of(int node, const std::string& line = "{}\n") {
    return {.kind = Recorded::Kind::Samples, .number = node, .lines = line};
  }

  os::TemporaryDirectory directory_;
  contract::RunDirectory run_{directory_.path() / "run"};
  std::vector<std::string> warnings_;
  WriteFaults faults_{[this](const std::string& text) {
    warnings_.push_back(text);
  }};
  RecordWriter records_{run_, faults_};
};

TEST_F(RecordsTest, GoToAFilePerNodeAndPerRank) {
  records_.write(sample_of(0, "a\n"));
  records_.write(sample_of(1, "b\n"));
  records_.write(sample_of(1, "c\n"));
  records_.write({.kind = Recorded::Kind::Metrics, .number = 1, .lines = "d\n"});

  EXPECT_EQ(os::read_file(run_.node_samples(0)), "a\n");
  EXPECT_EQ(os::read_file(run_.node_samples(1)), "b\nc\n");
  EXPECT_EQ(os::read_file(run_.output_metrics(1)), "d\n");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RecordsTest, OfMoreNodesThanFilesMayBeOpenAreAllKept) {
  for (int round = 0; round < 2; ++round) {
    for (int node = 0; node < 300; ++node) {
      records_.write(sample_of(node));
    }
  }

  EXPECT_EQ(os::read_file(run_.node_samples(0)), "{}\n{}\n");
  EXPECT_EQ(os::read_file(run_.node_samples(299)), "{}\n{}\n");
}

TEST_F(RecordsTest, AreKeptInPartsOfBoundedSize) {
  RecordWriter small(run_, faults_, {.part_bytes = 10, .old_parts = 1});
  for (const char* line : {"111111\n", "222222\n", "333333\n"}) {
    small.write(sample_of(0, line));
  }

  EXPECT_EQ(os::read_file(run_.node_samples(0)), "333333\n");
  EXPECT_EQ(os::read_file(run_.node_samples(0).string() + ".1"), "222222\n");
}

TEST_F(RecordsTest, OnAFullDiskCostOneWarning) {
  fs::create_directories(run_.node_samples(0).parent_path());
  fs::create_symlink("/dev/full", run_.node_samples(0));
  fs::create_symlink("/dev/full", run_.node_samples(1));

  for (int i = 0; i < 3; ++i) {
    records_.write(sample_of(0));
    records_.write(sample_of(1));
  }
  records_.write(sample_of(2));

  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("node-0.jsonl"), HasSubstr("No space left on device"))));
  EXPECT_EQ(os::read_file(run_.node_samples(2)), "{}\n");
}

TEST_F(RecordsTest, OfNoNodeAreLeftOut) {
  records_.write(sample_of(-1));
  records_.write(sample_of(0, ""));

  EXPECT_FALSE(fs::exists(run_.root()));
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace lockstep::supervisor

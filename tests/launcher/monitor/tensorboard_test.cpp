// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/tensorboard.h"

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/host.h"
#include "launcher/monitor/crc32c.h"
#include "launcher/monitor/tensorboard_messages.h"
#include "lockstep/error.h"
#include "support/event_file.h"
#include "support/fake_run.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::FakeRun;
using lockstep::testing::FileEvent;
using lockstep::testing::find_event_file;
using lockstep::testing::read_event_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Crc32c, IsTheOneOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);    // RFC 3720
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);  // RFC 3720
}

TEST(Record, HasLengthAndChecksums) {
  const std::string record = record_of("abc");
  ASSERT_THAT(record, SizeIs(8 + 4 + 3 + 4));
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

class Tensorboard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_tensorboard()) {
      GTEST_SKIP() << "built without protobuf";
    }
  }

  std::filesystem::path directory() const { return fake_run_.run().tensorboard(); }

  // The events of `fake_run_`, read at once by a separate store.
  void write_once() const {
    EventStore store(fake_run_.run(), {.keeps_news = [](std::string_view) {
                       return true;
                     }});
    TensorboardFile file(directory(), FakeRun::kStart);
    store.poll();
    file.add(store.take_news());
    file.finish();
    file.remove_earlier();
  }

  std::vector<FileEvent> events() const { return read_event_file(find_event_file(directory())); }

  std::vector<FileEvent> events_of(const std::string& tag) const {
    std::vector<FileEvent> found = events();
    std::erase_if(found, [&tag](const FileEvent& event) { return event.tag != tag; });
    return found;
  }

  std::vector<int64_t> steps_of(const std::string& tag) const {
    std::vector<int64_t> steps;
    for (const FileEvent& event : events_of(tag)) {
      steps.push_back(event.step);
    }
    return steps;
  }

  void metric(double seconds, const std::string& name, const std::string& value) const {
    fake_run_.append("output-0.jsonl",
                     "{\"event\":\"metric\",\"time\":" + std::to_string(FakeRun::kStart + seconds) +
                         ",\"rank\":0,\"name\":\"" + name + "\",\"value\":" + value + "}\n");
  }

  FakeRun fake_run_;
};

TEST_F(Tensorboard, HasEverySeriesWithTimeAndStep) {
  fake_run_.write_all();
  write_once();

  EXPECT_EQ(events().front().version, "brain.Event:2");
  const auto loss = events_of("loss");
  ASSERT_THAT(loss, SizeIs(40));
  EXPECT_EQ(loss[39].time, FakeRun::kStart + 20);
  EXPECT_EQ(loss[39].step, 40);
  EXPECT_FLOAT_EQ(loss[39].value, 0.05F);
  EXPECT_FLOAT_EQ(events_of("evaluation/accuracy").at(0).value, 0.98F);
  EXPECT_THAT(steps_of("rank/2/own_seconds"), SizeIs(39));
  // A series without steps gets the step of rank 0 at that time.
  EXPECT_THAT(steps_of("node/0/gpu/1/utilisation"), ElementsAre(36, 40));
  EXPECT_FLOAT_EQ(events_of("node/0/gpu/1/utilisation").at(0).value, 0.97F);
  EXPECT_THAT(steps_of("output/perplexity"), ElementsAre(40));
}

TEST_F(Tensorboard, HasMarksAsTexts) {
  fake_run_.write_all();
  write_once();

  const auto checkpoints = events_of("marks/checkpoint");
  ASSERT_THAT(checkpoints, SizeIs(1));
  EXPECT_EQ(checkpoints[0].plugin, "text");
  EXPECT_EQ(checkpoints[0].text, "checkpoints/step-00000040, 0.125 s");
  EXPECT_EQ(checkpoints[0].step, 40);
  EXPECT_EQ(events_of("marks/start").at(0).text, "4 workers");
  EXPECT_THAT(events_of("marks/evaluation"), SizeIs(0));
}

TEST_F(Tensorboard, HasEveryValueOnceHoweverOftenItIsWritten) {
  EventStore store(fake_run_.run(), {.points = 4, .keeps_news = [](std::string_view name) {
                                       return name == "loss";
                                     }});
  TensorboardFile file(directory(), FakeRun::kStart);
  std::vector<int64_t> expected;
  for (int64_t step = 1; step <= 50; ++step) {
    fake_run_.step(0, step);
    expected.push_back(step);
    if (step % 7 == 0) {
      store.poll();
      file.add(store.take_news());
      EXPECT_EQ(steps_of("loss"), expected);  // immediately, not only at the end
      file.add(store.take_news());
    }
  }
  store.poll();
  file.add(store.take_news());
  file.finish();

  EXPECT_EQ(steps_of("loss"), expected);
  EXPECT_THAT(steps_of("learning_rate"), SizeIs(0));
}

TEST_F(Tensorboard, ForgetsWhatIsDoneAgainAfterARestart) {
  fake_run_.start(0, FakeRun::kStart + 9);
  for (int64_t step = 1; step <= 8; ++step) {
    fake_run_.step(0, step);
  }
  EventStore store(fake_run_.run(), {.keeps_news = [](std::string_view) {
                     return true;
                   }});
  TensorboardFile file(directory(), FakeRun::kStart);
  store.poll();
  file.add(store.take_news());
  fake_run_.start(0, FakeRun::kStart + 13);
  store.poll();
  file.add(store.take_news());
  EXPECT_THAT(events_of("marks/restart"), SizeIs(0));  // its step is not known yet

  for (int64_t step = 5; step <= 6; ++step) {
    fake_run_.append({.kind = "step",
                      .time = FakeRun::kStart + 20 + static_cast<double>(step),
                      .rank = 0,
                      .fields = {{"step", step}, {"loss", 0.5}}});
  }
  store.poll();
  file.add(store.take_news());

  std::vector<std::string> order;
  for (const FileEvent& event : events()) {
    if (event.is_restart) {
      order.push_back("forget from " + std::to_string(event.step));
    } else if (event.tag == "loss" && event.step > 4) {
      order.push_back("loss " + std::to_string(event.step));
    } else if (event.tag == "marks/restart") {
      order.push_back("restart " + std::to_string(event.step));
    }
  }
  EXPECT_THAT(order,
              ElementsAre("loss 5",
                          "loss 6",
                          "loss 7",
                          "loss 8",
                          "forget from 5",
                          "restart 5",
                          "loss 5",
                          "loss 6"));
}

TEST_F(Tensorboard, ReportsARestartThatNoStepFollowed) {
  fake_run_.start(0, FakeRun::kStart + 9);
  fake_run_.step(0, 3);
  fake_run_.start(0, FakeRun::kStart + 13, 2);
  write_once();
  const auto restarts = events_of("marks/restart");
  ASSERT_THAT(restarts, SizeIs(1));
  EXPECT_EQ(restarts[0].step, 3);
  EXPECT_EQ(restarts[0].text, "2 workers");
}

TEST_F(Tensorboard, TakesStepsFromTheOutputOfAnyProgram) {
  metric(1, "loss", "2.5");
  metric(2, "step", "10");
  metric(2, "loss", "2");
  metric(3, "step", "20");
  metric(3.5, "loss", "\"nan\"");
  write_once();
  EXPECT_THAT(steps_of("output/loss"), ElementsAre(0, 10, 20));
  EXPECT_TRUE(std::isnan(events_of("output/loss").at(2).value));
  EXPECT_THAT(steps_of("output/step"), ElementsAre(10, 20));
}

TEST_F(Tensorboard, ForgetsWhatAnOutputSaysAgain) {
  metric(1, "step", "10");
  metric(2, "step", "20");
  metric(3, "step", "15");
  metric(3, "loss", "1.5");
  write_once();
  std::vector<std::string> order;
  for (const FileEvent& event : events()) {
    order.push_back((event.is_restart ? "forget " : event.tag + " ") + std::to_string(event.step));
  }
  order.erase(order.begin());  // the version
  EXPECT_THAT(
      order,
      ElementsAre(
          "output/step 10", "output/step 20", "forget 15", "output/step 15", "output/loss 15"));
}

TEST_F(Tensorboard, CountsEventsWithoutSteps) {
  metric(1, "loss", "2.5");
  metric(2, "loss", "2");
  metric(2.5, "accuracy", "0.5");
  metric(3, "loss", "1.5");
  write_once();
  EXPECT_THAT(steps_of("output/loss"), ElementsAre(0, 1, 2));
  EXPECT_THAT(steps_of("output/accuracy"), ElementsAre(0));
}

TEST_F(Tensorboard, ReplacesItsOwnFilesAndNoOthers) {
  fake_run_.step(0, 1);
  write_once();
  const std::filesystem::path first = find_event_file(directory());
  EXPECT_THAT(first.filename().string(),
              StartsWith("events.out.tfevents.1706693400." + os::host_name() + "."));
  const std::filesystem::path earlier = directory() / "events.out.tfevents.1706693399.a.1.lockstep";
  const std::filesystem::path other = directory() / "events.out.tfevents.1706693399.a.1.0";
  std::filesystem::rename(first, earlier);
  std::ofstream(other) << "of another user";

  write_once();
  EXPECT_FALSE(std::filesystem::exists(earlier));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_EQ(find_event_file(directory()), first);
  EXPECT_THAT(steps_of("loss"), ElementsAre(1));
  EXPECT_TRUE(events().at(1).is_restart);  // for a TensorBoard that has read the earlier file
  EXPECT_EQ(events().at(1).step, 0);
}

TEST_F(Tensorboard, RefusesADirectoryToWhichAnotherWrites) {
  const TensorboardFile file(directory(), FakeRun::kStart);
  try {
    const TensorboardFile another(directory(), FakeRun::kStart + 1);
    FAIL() << "two write to one directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Unavailable);
    EXPECT_THAT(error.sentence(), HasSubstr("another lockstep process is writing there"));
  }
  EXPECT_FALSE(find_event_file(directory()).empty());
}

TEST_F(Tensorboard, SaysWhatItCannotWrite) {
  std::ofstream(fake_run_.run().root() / "tensorboard") << "a file where a directory shall be";
  EXPECT_THROW(write_once(), Error);
}

}  // namespace
}  // namespace lockstep::monitor

// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <random>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::MatchesRegex;

// The content of checkpoint `step` is a function of `step`, so that a mixture of two checkpoints is
// detected.
void commit(const std::filesystem::path& root, int64_t step, int64_t elements = 3000) {
  CheckpointWriter writer(root, {.step = step});
  for (const char* part : {"model.pt", "optimizer.pt"}) {
    writer.add_tensors(part, {{"w", torch::full({elements}, static_cast<double>(step))}});
  }
  writer.commit();
}

// Commits every step twice, prunes, and reports each commit through the pipe, until it is killed.
[[noreturn]] void write_for_ever(const std::filesystem::path& root, int64_t step, int acknowledge) {
  for (;; ++step) {
    for (int time = 0; time < 2; ++time) {
      commit(root, step);
      if (::write(acknowledge, &step, sizeof step) != sizeof step) {
        ::_exit(1);
      }
    }
    prune_checkpoints(root, {.keep_last = 2});
  }
}

int64_t last_of(int descriptor) {
  int64_t last = -1;
  int64_t next = 0;
  while (::read(descriptor, &next, sizeof next) == sizeof next) {
    last = next;
  }
  return last;
}

TEST(Checkpoints, LoseNothingCompleteWhenTheWriterIsKilledAtAnyInstant) {
  const os::TemporaryDirectory directory;
  const auto start = std::chrono::steady_clock::now();
  commit(directory.path(), 0);
  std::chrono::duration<double> one_commit = std::chrono::steady_clock::now() - start;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> commits(0, 4);

  int64_t latest = 0;
  for (int kill = 0; kill < 30; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      write_for_ever(directory.path(), latest + 1, ends[1]);
    }
    ::close(ends[1]);
    std::this_thread::sleep_for(one_commit * commits(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const int64_t acknowledged = std::max(latest, last_of(ends[0]));
    ::close(ends[0]);

    const auto found = find_latest_checkpoint(directory.path(), [](const Error& damage) {
      ADD_FAILURE() << "a complete checkpoint is damaged: " << damage.what();
    });
    ASSERT_TRUE(found);
    if (found->state().step == latest) {
      one_commit *= 1.3;  // commits take longer on a busy machine
    }
    latest = found->state().step;
    ASSERT_GE(latest, acknowledged);
    for (const char* part : {"model.pt", "optimizer.pt"}) {
      ASSERT_TRUE(identical(found->tensors(part),
                            {{"w", torch::full({3000}, static_cast<double>(latest))}}));
    }
  }
  EXPECT_GT(latest, 0);
}

// Runs `body` in a child process with a file system of one MiB at `path`; returns its text, or the
// reason why this is impossible.
struct Small {
  bool mounted = false;
  std::string text;
};
Small on_a_small_disk(const std::filesystem::path& path, const std::function<std::string()>& body) {
  const std::filesystem::path report = path.parent_path() / "report";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool alone = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!alone || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") != 0) {
      write(report, std::strerror(errno));
      ::_exit(1);
    }
    write(report, body());
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {.mounted = WIFEXITED(status) && WEXITSTATUS(status) == 0, .text = read(report)};
}

TEST(Checkpoints, SurviveAFullDisk) {
  const os::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path() / "disk";
  std::filesystem::create_directories(root);

  const Small disk = on_a_small_disk(root, [&] {
    commit(root, 1, 50000);
    const std::string message = error_of([&] { commit(root, 2, 100000); });
    std::string left;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      left += entry.path().filename().string() + " ";
    }
    const auto latest = find_latest_checkpoint(root);
    return message + "\nleft: " + left + "\nlatest: " + std::to_string(latest->state().step);
  });

  if (!disk.mounted) {
    GTEST_SKIP() << "cannot mount a small tmpfs here: " << disk.text;
  }
  EXPECT_THAT(disk.text,
              MatchesRegex("74 cannot write " + root.string() +
                           "/.step-00000002.partial/optimizer.pt: No space left on device\n"
                           "  required: 78[0-9].* KiB  .this checkpoint.\n"
                           "  free:     6[0-9][0-9].* KiB  ." +
                           root.string() +
                           ".\n"
                           "  kept:     the previous checkpoint, step-00000001, is untouched\n"
                           "left: step-00000001 \nlatest: 1"));
}

}  // namespace
}  // namespace lockstep::checkpoint

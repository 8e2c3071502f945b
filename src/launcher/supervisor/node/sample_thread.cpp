// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/sample_thread.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "common/os/pipe.h"

namespace lockstep::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

// About a minute of samples at the default interval of one second.
constexpr size_t kMaxWaiting = 64;
constexpr std::chrono::seconds kPatience(2);

}  // namespace

// Shared by both threads. If the sampling thread hangs, it keeps this object alive after
// ~SampleThread().
struct SampleThread::Shared {
  std::mutex mutex;
  std::condition_variable news;
  bool is_stopping = false;
  bool is_done = false;
  Workers workers;
  std::deque<std::string> lines;
  std::string fault;
  os::Pipe bell;  // both ends stay open, so that a late write has a reader
  Clock::duration every{};
  std::function<Look()> make_look;

  void ring() const { (void)os::write_some(bell.in.number(), "."); }

  // A full pipe of the bell is harmless: it already wakes up the reader.
  void add(std::string line) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
    if (lines.size() > kMaxWaiting) {
      lines.pop_front();
    }
    ring();
  }

  // The lock is not held while a sample is taken, which can take long or hang.
  void take_samples() {
    const Look look = make_look();
    auto next = Clock::now();
    for (;;) {
      std::unique_lock lock(mutex);
      if (news.wait_until(lock, next, [this] { return is_stopping; })) {
        return;
      }
      const Workers watched = workers;
      lock.unlock();
      const auto began = Clock::now();
      add(contract::to_json(look(watched)) + '\n');
      // Sampling takes at most a tenth of the time: slow samples are taken less often.
      const auto now = Clock::now();
      next = std::max(next + every, now + 9 * (now - began));
    }
  }

  // No exception may leave the thread: it would terminate the agent with all its workers.
  void run() {
    std::string why;
    try {
      take_samples();
    } catch (const std::exception& problem) {
      why = problem.what();
    }
    const std::lock_guard lock(mutex);
    fault = std::move(why);
    is_done = true;
    news.notify_all();
    ring();
  }
};

SampleThread::SampleThread(std::chrono::duration<double> every, std::function<Look()> make_look)
    : shared_(std::make_shared<Shared>()) {
  shared_->bell = os::make_pipe();
  os::set_nonblocking(shared_->bell.out.number());
  os::set_nonblocking(shared_->bell.in.number());
  shared_->every = std::chrono::duration_cast<Clock::duration>(every);
  shared_->make_look = std::move(make_look);
  thread_ = std::thread([shared = shared_] { shared->run(); });
}

// Not a std::jthread, whose destructor joins: a thread that hangs in a faulty driver must not
// prevent the end of the agent.
SampleThread::~SampleThread() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_stopping = true;
  shared_->news.notify_all();
  const bool is_done = shared_->news.wait_for(lock, kPatience, [this] { return shared_->is_done; });
  lock.unlock();
  if (is_done) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

int SampleThread::fd() const {
  return shared_->bell.out.number();
}

void SampleThread::set_workers(Workers workers) {
  const std::lock_guard lock(shared_->mutex);
  shared_->workers = std::move(workers);
}

// The bell is emptied before the lines are taken. In the other order, a line that is added in
// between would lose its wake-up.
std::string SampleThread::take_lines() {
  std::string rung;
  while (os::read_some(fd(), rung, os::kAtomicBytes) == os::ReadResult::Some) {
    rung.clear();
  }
  std::string all;
  const std::lock_guard lock(shared_->mutex);
  for (const std::string& line : shared_->lines) {
    all += line;
  }
  shared_->lines.clear();
  return all;
}

std::string SampleThread::take_fault() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->fault, "");
}

}  // namespace lockstep::supervisor

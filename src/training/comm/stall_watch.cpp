// SPDX-License-Identifier: Apache-2.0
#include "training/comm/stall_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/host.h"
#include "common/os/network.h"
#include "common/os/socket.h"
#include "training/comm/call_record.h"
#include "training/comm/crash_note.h"
#include "training/comm/error_report.h"
#include "training/comm/stall_report.h"
#include "training/comm/store.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kTick = milliseconds(250);
// Minimum time between two publications of a worker. A store handles thousands of writes per
// second.
constexpr double kPublishEvery = 2;  // seconds
// A worker that has been in a call for longer than this publishes repeatedly, to show that it is
// alive.
constexpr auto kLong = std::chrono::seconds(1);
constexpr auto kStoreTimeout = std::chrono::seconds(10);
// Maximum time to wait for the watch thread, which may be blocked on a store that does not respond.
constexpr auto kPatience = std::chrono::seconds(2);
// Maximum time that rank 0 keeps the store for the last publication and the claims of the others.
constexpr auto kStay = std::chrono::seconds(1);
// Patience of explain() in a process that is being terminated by a library. explain() trusts a
// position only after its beat has grown, so it must see at least one more publication of every
// worker that waits in a call: twice the longest interval between two publications.
constexpr auto kPatienceOfCrash = milliseconds(4500);
static_assert(kPatienceOfCrash >= 2 * (std::chrono::duration<double>(kPublishEvery) + kTick));
// If all workers are inside the same call, it may simply be slow, so a hang is reported later than
// a missing rank.
constexpr double kHangFactor = 6;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::vector<uint8_t> to_bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

// No key of the watch is ever deleted, so get() after a successful check() returns at once. Without
// the check, get() would block until the key exists.
std::string find_text(c10d::Store& store, const std::string& key) {
  if (!store.check({key})) {
    return "";
  }
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

// Addresses of the store; any of them may be reachable.
struct StoreAddresses {
  std::vector<std::string> hosts;
  int port = 0;
};

// State of the watch thread. Shared with it, because the thread may outlive the watch if the store
// does not respond.
//
// Threads: the fields from store_ to next_shutdown_ belong to the watch thread until is_done_ is
// set. Afterwards explain() may use them on another thread; mutex_ orders the two.
class Watcher {
 public:
  Watcher(std::shared_ptr<CallRecord> record,
          compat::StorePtr served,
          StoreAddresses addresses,
          contract::WorkerSpec spec,
          StallOptions options)
      : record_(std::move(record)),
        served_(std::move(served)),
        addresses_(std::move(addresses)),
        spec_(std::move(spec)),
        options_(options),
        host_(spec_.node.empty() ? os::host_name() : spec_.node) {}

  void request_stop() { stop_.request_stop(); }

  // Thread function. A failure ends only the watch: training does not need it.
  void run() noexcept {
    try {
      if (connect()) {
        watch(stop_.get_token());
        // The final position of this worker, which the others may need for their explanation.
        publish(look());
        stay_for_the_others();
      }
    } catch (const std::exception& fault) {
      const std::string reason = fault.what();
      log::debug("stall watch stopped: {}", reason.substr(0, reason.find('\n')));
    }
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  }

  // Returns false if the thread is still blocked on a store that does not respond.
  bool wait_until_done(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return is_done_; });
  }

  // Must be called only after the thread is done.
  std::optional<Error> explain(milliseconds patience) {
    const CallView view = record_->read();
    if (!store_ || !(view.failed || view.is_inside())) {
      return std::nullopt;
    }
    publish(look());
    const WorkerViews first = read_all();
    for (const auto start = Clock::now();;) {
      WorkerViews views = read_all();
      for (size_t rank = 0; rank < views.size(); ++rank) {
        // Only current positions count. A position is current if its beat has grown since the first
        // read, or if the worker has failed and therefore no longer publishes. Any other position
        // may be outdated and would produce a wrong explanation.
        const bool is_true =
            static_cast<int>(rank) == spec_.rank ||
            (views[rank] &&
             (views[rank]->failed || (first[rank] && views[rank]->beat > first[rank]->beat)));
        views[rank] = is_true ? views[rank] : std::nullopt;
      }
      if (const auto mistake = find_mistake(views)) {
        return to_error(*mistake);
      }
      if (Clock::now() - start >= patience) {
        return std::nullopt;
      }
      std::this_thread::sleep_for(kTick);
    }
  }

  // Must be called only after the thread is done, or by the thread.
  std::optional<bool> claim_report(Ending ending) noexcept {
    try {
      return store_ ? std::optional(is_first(ending)) : std::nullopt;
    } catch (const std::exception& fault) {
      // The store was served by rank 0, which has exited.
      log::debug("cannot ask the other workers: {}", fault.what());
      return std::nullopt;
    }
  }

  void stay_for_claims() noexcept {
    const bool is_server = spec_.rank == 0 && !spec_.has_agent_store;
    if (!is_server || !store_) {
      return;
    }
    const bool has_agent = !spec_.error_file.empty();
    try {
      const auto expected = [&] {
        return has_agent ? count_claims() : int64_t{spec_.world_size};
      };
      for (const auto start = Clock::now();
           Clock::now() - start < kStay && store_->add("ended", 0) < expected();) {
        std::this_thread::sleep_for(milliseconds(5));
      }
    } catch (const std::exception& fault) {
      log::debug("cannot wait for the other workers: {}", fault.what());
    }
  }

  // Reports a mistake and exits at once, even if another worker is elected to print it.
  [[noreturn]] void end(const Error& error) noexcept {
    const bool has_agent = !spec_.error_file.empty();
    if (claim_report(Ending::Mistake).value_or(!has_agent)) {
      print_error(error.what());
    } else {
      keep_error(error, spec_);
    }
    stay_for_claims();
    std::_Exit(static_cast<int>(error.code()));
  }

 private:
  bool connect() {
    contract::WorkerSpec spec = spec_;
    spec.has_agent_store = true;  // the store exists already; connect only
    spec.master_port = addresses_.port;
    for (const std::string& host : addresses_.hosts) {
      if (os::wait_for_port(host, addresses_.port, std::chrono::seconds(3))) {
        spec.master_addr = host;
        const compat::StorePtr store = join_store(spec, kStoreTimeout);
        store_ = c10::make_intrusive<c10d::PrefixStore>(
            fmt::format("lockstep/watch/{}", spec_.attempt), store);
        return true;
      }
    }
    log::debug("stall watch disabled: cannot reach the store");
    return false;
  }

  // Rank 0 serves the store and may be about to exit. A client of libtorch 1.13 terminates its
  // process if the connection is reset while it is being established. So rank 0 waits until all
  // others have published, and no client connects any more.
  void stay_for_the_others() {
    if (spec_.rank != 0) {
      return;
    }
    std::vector<std::string> words;
    for (int rank = 1; rank < spec_.world_size; ++rank) {
      words.push_back(std::to_string(rank));
    }
    for (const auto start = Clock::now(); Clock::now() - start < kStay && !store_->check(words);) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  void watch(const std::stop_token& stop) {
    publish(look());
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait_for(lock, stop, kTick, [] { return false; });
      if (!stop.stop_requested()) {
        lock.unlock();
        look_once();
        lock.lock();
      }
    }
  }

  void look_once() {
    const CallView view = record_->read();
    const auto now = Clock::now();
    const auto waited = now - view.since;
    const bool is_waiting = view.is_inside() && !view.failed;
    const bool is_due =
        seconds(now - published_at_) >= std::min(kPublishEvery, options_.warning / 2);
    if (is_due && (changed_since_published(view) || (is_waiting && waited > kLong))) {
      publish(view);
    }
    if (view.since != waiting_since_) {
      waiting_since_ = view.since;
      // A small delay that grows with the rank: the lowest waiting rank claims the report before
      // the others try.
      next_word_ = options_.warning + 0.02 * std::min(spec_.rank, 40);
      next_shutdown_ = options_.shutdown;
    }
    if (is_waiting && seconds(waited) >= next_word_) {
      speak_up(view);
      next_word_ *= 2;
    }
    if (is_waiting && options_.shutdown > 0 && seconds(waited) >= next_shutdown_) {
      shut_down(view);
      next_shutdown_ += options_.warning;
    }
  }

  bool changed_since_published(const CallView& view) const {
    return view.since != published_.since || view.number != published_.number ||
           view.phase != published_.phase || view.failed != published_.failed;
  }

  CallView look() const { return record_->read(); }

  Seen to_seen(const CallView& view) const {
    return {.host = host_,
            .number = view.number,
            .call = view.call,
            .in_call = view.in_call,
            .is_end = view.call == kEndOfProgram,
            .scope = view.scope,
            .detail = view.detail,
            .phase = view.phase,
            .since = wall_time() - seconds(Clock::now() - view.since),
            .failed = view.failed,
            .beat = beat_};
  }

  void publish(const CallView& view) {
    ++beat_;
    store_->set(std::to_string(spec_.rank), to_bytes(encode(to_seen(view))));
    published_ = view;
    published_at_ = Clock::now();
  }

  WorkerViews read_all() {
    WorkerViews views;
    for (int rank = 0; rank < spec_.world_size; ++rank) {
      views.push_back(rank == spec_.rank ? to_seen(look())
                                         : decode(find_text(*store_, std::to_string(rank))));
    }
    return views;
  }

  // Elects one rank per warning period. The first compareSet on the value that was read wins; all
  // others see a changed value.
  bool claim_word() {
    const std::string last = find_text(*store_, "word");
    const double now = wall_time();
    if (!last.empty() && now - std::strtod(last.c_str(), nullptr) < 0.8 * options_.warning) {
      return false;
    }
    const std::string mine = fmt::format("{:.3f} {}", now, spec_.rank);
    return store_->compareSet("word", to_bytes(last), to_bytes(mine)) == to_bytes(mine);
  }

  // The counters elect without a leader: add() is atomic in the store, and exactly one rank gets 1.
  // "ended" is counted last: rank 0, which may serve the store, stays until every rank has its
  // answer (stay_for_claims). It may exit before it answers that last call, when the election is
  // over.
  bool is_first(Ending ending) {
    const bool is_elected = ending == Ending::LostPeer
                                ? !store_->check({"report"}) && store_->add("lost", 1) == 1
                                : store_->add("report", 1) == 1;
    try {
      store_->add("ended", 1);
    } catch (const std::exception& fault) {
      log::debug("rank 0 has exited after the election: {}", fault.what());
    }
    return is_elected;
  }

  // The claims that have begun. add() would create a key, and its existence has a meaning.
  int64_t count_claims() {
    int64_t claims = 0;
    for (const char* key : {"report", "lost"}) {
      claims += store_->check({key}) ? store_->add(key, 0) : 0;
    }
    return claims;
  }

  void speak_up(const CallView& view) {
    publish(view);
    if (!claim_word()) {
      return;
    }
    const WorkerViews views = read_all();
    if (!views[static_cast<size_t>(spec_.rank)]->is_inside()) {
      return;
    }
    if (const auto mistake = find_mistake(views)) {
      end(to_error(*mistake));
    }
    const double now = wall_time();
    if (const auto text = find_missing(views, spec_.rank, now)) {
      log::warn("{}", *text);
    } else if (seconds(Clock::now() - view.since) >= kHangFactor * options_.warning) {
      log::warn("{}", describe_hang(views, spec_.rank, now));
    }
  }

  void shut_down(const CallView& view) {
    publish(view);
    const WorkerViews views = read_all();
    if (const auto text = find_missing(views, spec_.rank, wall_time())) {
      end(Error(ExitCode::TryAgain, fmt::format("stalled: {}", *text))
              .fact("waited",
                    format_duration(seconds(Clock::now() - view.since)),
                    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"));
    }
  }

  std::shared_ptr<CallRecord> record_;
  compat::StorePtr served_;  // keeps the server alive on rank 0
  StoreAddresses addresses_;
  contract::WorkerSpec spec_;
  StallOptions options_;
  std::string host_;

  compat::StorePtr store_;  // own connection: a blocked request delays no other user
  CallView published_;
  Clock::time_point published_at_;
  uint64_t beat_ = 0;
  Clock::time_point waiting_since_;
  double next_word_ = 0;
  double next_shutdown_ = 0;

  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_done_ = false;
};

class ThreadedWatch final : public StallWatch, private CrashReporter {
 public:
  explicit ThreadedWatch(std::shared_ptr<Watcher> watcher)
      : watcher_(std::move(watcher)), thread_([watcher = watcher_] { watcher->run(); }) {
    add_crash_reporter(*this);
  }

  ThreadedWatch(const ThreadedWatch&) = delete;
  ThreadedWatch& operator=(const ThreadedWatch&) = delete;

  ~ThreadedWatch() override {
    remove_crash_reporter(*this);
    stop();
  }

  std::optional<Error> explain(milliseconds patience) override {
    return stop() ? ask(patience) : std::nullopt;
  }

  std::optional<bool> claim_report(Ending ending) override {
    return stop() ? watcher_->claim_report(ending) : std::nullopt;
  }

  void stay_for_claims() override {
    if (stop()) {
      watcher_->stay_for_claims();
    }
  }

 private:
  // Called on any thread. Only requests the watch thread to stop.
  void report_and_exit() noexcept override {
    watcher_->request_stop();
    if (!watcher_->wait_until_done(kPatience)) {
      return;
    }
    if (const auto error = ask(kPatienceOfCrash)) {
      watcher_->end(*error);
    }
  }

  std::optional<Error> ask(milliseconds patience) noexcept {
    try {
      return watcher_->explain(patience);
    } catch (const std::exception& fault) {
      // The store was served by rank 0, which has exited. Nothing more can be found out.
      log::debug("cannot ask the other workers: {}", fault.what());
      return std::nullopt;
    }
  }

  // A store on a lost machine may never respond. An ending process must not wait for it, so the
  // thread is detached.
  bool stop() {
    watcher_->request_stop();
    if (!thread_.joinable()) {
      return is_done_;
    }
    is_done_ = watcher_->wait_until_done(kPatience);
    if (is_done_) {
      thread_.join();
    } else {
      thread_.detach();
    }
    return is_done_;
  }

  std::shared_ptr<Watcher> watcher_;
  bool is_done_ = false;
  std::thread thread_;
};

// Workers of mpirun have no store. Rank 0 serves one on a port chosen by the kernel.
compat::StorePtr serve_store(int world_size, StoreAddresses& addresses) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.numWorkers = static_cast<size_t>(world_size);
  options.waitWorkers = false;
  compat::avoid_libuv(options);
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  addresses.port = store->getPort();
  addresses.hosts.push_back(os::host_name());
  for (const os::InterfaceAddress& address : os::interface_addresses()) {
    if (!address.is_loopback) {
      addresses.hosts.push_back(address.text);
    }
  }
  return store;
}

// Called by all workers together.
compat::StorePtr share_store(Communicator& communicator,
                             const contract::WorkerSpec& spec,
                             StoreAddresses& addresses) {
  compat::StorePtr served;
  std::string text;
  if (communicator.rank() == 0) {
    try {
      served = serve_store(communicator.size(), addresses);
      text = fmt::format("{}\n{}", addresses.port, join(addresses.hosts, "\n"));
    } catch (const std::exception& fault) {
      log::debug("stall watch disabled: {}", fault.what());
    }
  }
  const std::vector<std::string> lines = split(communicator.broadcast_bytes(text), '\n');
  if (lines.size() < 2) {
    return {};
  }
  addresses.port = static_cast<int>(find_integer(lines[0]).value_or(0));
  addresses.hosts.assign(lines.begin() + 1, lines.end());
  if (communicator.rank() == 0 || spec.local_world_size == spec.world_size) {
    addresses.hosts = {"127.0.0.1"};
  }
  return served;
}

}  // namespace

std::unique_ptr<StallWatch> watch_for_stalls(Communicator& communicator,
                                             const compat::StorePtr& store,
                                             const contract::WorkerSpec& spec,
                                             const StallOptions& options) {
  if (communicator.size() == 1 || options.warning <= 0) {
    return nullptr;
  }
  StoreAddresses addresses{.hosts = {spec.master_addr}, .port = spec.master_port};
  const compat::StorePtr served = store ? store : share_store(communicator, spec, addresses);
  if (addresses.port == 0) {
    return nullptr;
  }
  return std::make_unique<ThreadedWatch>(std::make_shared<Watcher>(
      CommunicatorAccess::share_calls(communicator), served, std::move(addresses), spec, options));
}

}  // namespace lockstep::comm

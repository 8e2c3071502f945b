// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "comm/reduce.h"
#include "lockstep/error.h"
#include "os/peer_watch.h"
#include "os/shared_memory.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

// What one worker lays out for the others at a time. Two such slots per worker, used in turn, let
// a worker run one chunk ahead of the slowest.
constexpr size_t kChunkBytes = 256U << 10U;
constexpr int kMostWorkers = 256;

// How far a worker has come: the number of the chunk that it has laid out, and of the chunk whose
// part it has reduced. One cache line each, so that waiting on one disturbs no other.
struct alignas(64) Progress {
  std::atomic<uint64_t> laid_out;
  alignas(64) std::atomic<uint64_t> reduced;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t segment_bytes(int size) {
  return static_cast<size_t>(size) * (sizeof(Progress) + 2 * kChunkBytes);
}

void relax() {
#if defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#elif defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#endif
}

class SharedMemoryRank final : public Communicator {
 public:
  SharedMemoryRank(int rank,
                   int size,
                   os::SharedMemory memory,
                   os::PeerWatch peers,
                   std::chrono::milliseconds timeout)
      : rank_(rank),
        size_(size),
        memory_(std::move(memory)),
        peers_(std::move(peers)),
        timeout_(timeout),
        progress_(reinterpret_cast<Progress*>(memory_.data())) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "shared-memory"; }

  void barrier() override {
    call_ = "barrier";
    begin_chunk();
    lay_out();
    for (int peer = 0; peer < size_; ++peer) {
      wait_for(progress_[peer].laid_out, chunk_, peer);
    }
  }

 protected:
  // Per chunk: everyone lays out its data; worker r reduces the r-th part in the order of ranks, in
  // place in worker 0's slot; everyone copies all parts out. Two workers skip the second round and
  // each compute the whole sum: a + b is the same on both.
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    call_ = "all-reduce";
    const size_t width = tensor.element_size();
    const auto total = static_cast<size_t>(tensor.numel());
    auto* bytes = static_cast<std::byte*>(tensor.data_ptr());
    for (size_t done = 0; done < total; done += kChunkBytes / width) {
      const size_t count = std::min(kChunkBytes / width, total - done);
      std::byte* mine = bytes + done * width;
      begin_chunk();
      std::memcpy(slot(rank_), mine, count * width);
      lay_out();
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].laid_out, chunk_, peer);
      }
      if (size_ == 2) {
        reduce_pair(mine, slot(0), slot(1), count, tensor.scalar_type(), reduction);
        continue;
      }
      reduce_my_part(count, width, tensor.scalar_type(), reduction);
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].reduced, chunk_, peer);
        const auto [begin, end] = part_of(peer, count);
        std::memcpy(mine + begin * width, slot(0) + begin * width, (end - begin) * width);
      }
    }
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    call_ = "broadcast";
    const size_t total = tensor.nbytes();
    auto* bytes = static_cast<std::byte*>(tensor.data_ptr());
    for (size_t done = 0; done < total; done += kChunkBytes) {
      const size_t count = std::min(kChunkBytes, total - done);
      begin_chunk();
      if (rank_ == root) {
        std::memcpy(slot(root), bytes + done, count);
      }
      lay_out();
      if (rank_ != root) {
        wait_for(progress_[root].laid_out, chunk_, root);
        std::memcpy(bytes + done, slot(root), count);
      }
    }
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    call_ = "all-gather";
    const size_t total = input.nbytes();
    const auto* from = static_cast<const std::byte*>(input.data_ptr());
    auto* into = static_cast<std::byte*>(output.data_ptr());
    for (size_t done = 0; done < total; done += kChunkBytes) {
      const size_t count = std::min(kChunkBytes, total - done);
      begin_chunk();
      std::memcpy(slot(rank_), from + done, count);
      lay_out();
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].laid_out, chunk_, peer);
        std::memcpy(into + static_cast<size_t>(peer) * total + done, slot(peer), count);
      }
    }
  }

  // Per chunk, a slot holds a piece of each worker's part; worker r adds up the r-th pieces.
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    call_ = "reduce-scatter";
    const size_t width = input.element_size();
    const auto total = static_cast<size_t>(output.numel());
    const size_t most = kChunkBytes / width / static_cast<size_t>(size_);
    const auto* from = static_cast<const std::byte*>(input.data_ptr());
    auto* into = static_cast<std::byte*>(output.data_ptr());
    for (size_t done = 0; done < total; done += most) {
      const size_t count = std::min(most, total - done);
      begin_chunk();
      for (int peer = 0; peer < size_; ++peer) {
        const auto part = static_cast<size_t>(peer);
        std::memcpy(slot(rank_) + part * count * width,
                    from + (part * total + done) * width,
                    count * width);
      }
      lay_out();
      const size_t mine = static_cast<size_t>(rank_) * count * width;
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].laid_out, chunk_, peer);
        if (peer == 0) {
          std::memcpy(into + done * width, slot(0) + mine, count * width);
        } else {
          reduce_into(
              into + done * width, slot(peer) + mine, count, input.scalar_type(), Reduction::Sum);
        }
      }
    }
  }

 private:
  struct Part {
    size_t begin;
    size_t end;
  };

  Part part_of(int peer, size_t count) const {
    const auto index = static_cast<size_t>(peer);
    const auto parts = static_cast<size_t>(size_);
    return {count * index / parts, count * (index + 1) / parts};
  }

  void reduce_my_part(size_t count, size_t width, torch::ScalarType type, Reduction reduction) {
    const auto [begin, end] = part_of(rank_, count);
    for (int peer = 1; peer < size_; ++peer) {
      reduce_into(
          slot(0) + begin * width, slot(peer) + begin * width, end - begin, type, reduction);
    }
    progress_[rank_].reduced.store(chunk_, std::memory_order_release);
  }

  // The slot of this chunk was last read two chunks ago. A worker that has laid out the chunk
  // before this one has finished with that.
  void begin_chunk() {
    ++chunk_;
    if (chunk_ > 2) {
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].laid_out, chunk_ - 1, peer);
      }
    }
  }

  void lay_out() { progress_[rank_].laid_out.store(chunk_, std::memory_order_release); }

  std::byte* slot(int peer) const {
    const size_t index = (chunk_ & 1U) * static_cast<size_t>(size_) + static_cast<size_t>(peer);
    return memory_.data() + static_cast<size_t>(size_) * sizeof(Progress) + index * kChunkBytes;
  }

  // Spins first, because a peer is mostly microseconds away; then gives its core to the others, for
  // there may be more workers than cores; then sleeps, and looks whether the peers live.
  void wait_for(const std::atomic<uint64_t>& number, uint64_t least, int peer) const {
    for (int i = 0; i < 4000; ++i) {
      if (number.load(std::memory_order_acquire) >= least) {
        return;
      }
      if (i < 2000) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
    wait_long_for(number, least, peer);
  }

  void wait_long_for(const std::atomic<uint64_t>& number, uint64_t least, int peer) const {
    const auto start = Clock::now();
    auto next_look = start + std::chrono::milliseconds(2);
    while (number.load(std::memory_order_acquire) < least) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const auto now = Clock::now();
      if (now < next_look) {
        continue;
      }
      next_look = now + std::chrono::milliseconds(5);
      const auto ended = peers_.find_ended();
      // A peer may lay out its last chunk and end; look once more before giving up.
      if (ended && number.load(std::memory_order_acquire) < least) {
        const int lost = *ended < rank_ ? *ended : *ended + 1;
        throw Error(ExitCode::TryAgain,
                    fmt::format("cannot finish {}: rank {} is gone", call_, lost))
            .fact("waiting for", fmt::format("rank {}", peer), "shared memory");
      }
      if (now - start > timeout_) {
        throw Error(ExitCode::TryAgain,
                    fmt::format("cannot finish {}: rank {} did not come within {}",
                                call_,
                                peer,
                                format_duration(std::chrono::duration<double>(timeout_).count())));
      }
    }
  }

  int rank_;
  int size_;
  os::SharedMemory memory_;
  os::PeerWatch peers_;  // all but this worker, in the order of ranks
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  uint64_t chunk_ = 0;
  std::string_view call_;  // for messages
};

std::vector<uint8_t> to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string get_text(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

// Watches every other worker; nothing if one runs on another machine.
std::optional<os::PeerWatch> find_peers(c10d::Store& store, int rank, int size) {
  const std::string here = os::machine_identity();
  store.set(fmt::format("shm/who/{}", rank),
            to_bytes(fmt::format("{} {}", os::process_id(), here)));
  os::PeerWatch peers;
  bool all_here = true;
  for (int peer = 0; peer < size; ++peer) {
    const std::string who = get_text(store, fmt::format("shm/who/{}", peer));
    const size_t space = who.find(' ');
    const auto pid = find_integer(who.substr(0, space));
    LOCKSTEP_CHECK(space != std::string::npos && pid.has_value());
    all_here = all_here && who.substr(space + 1) == here &&
               (peer == rank || peers.add(static_cast<int>(*pid)));
  }
  return all_here ? std::optional(std::move(peers)) : std::nullopt;
}

}  // namespace

std::unique_ptr<Communicator> join_shared_memory(c10d::Store& store,
                                                 int rank,
                                                 int size,
                                                 std::chrono::milliseconds timeout) {
  if (size > kMostWorkers) {
    return nullptr;
  }
  std::optional<os::PeerWatch> peers = find_peers(store, rank, size);
  std::optional<os::SharedMemory> memory;
  std::string name;
  if (rank == 0) {
    std::random_device chance;
    name = fmt::format("/lockstep-{:08x}{:08x}", chance(), chance());
    memory = os::SharedMemory::create(name, segment_bytes(size));
    store.set("shm/name", to_bytes(memory ? name : ""));
  } else {
    name = get_text(store, "shm/name");
    if (!name.empty()) {
      memory = os::SharedMemory::open(name, segment_bytes(size));
    }
  }
  // All of them, or none: one that cannot join takes the others with it.
  store.set(fmt::format("shm/ok/{}", rank), to_bytes(peers && memory ? "yes" : "no"));
  bool all_joined = true;
  for (int peer = 0; peer < size; ++peer) {
    all_joined = get_text(store, fmt::format("shm/ok/{}", peer)) == "yes" && all_joined;
  }
  if (rank == 0) {
    os::SharedMemory::remove_name(name);
  }
  if (!all_joined) {
    return nullptr;
  }
  return std::make_unique<SharedMemoryRank>(
      rank, size, std::move(*memory), std::move(*peers), timeout);
}

}  // namespace lockstep::comm

// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <random>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "comm/call_signature.h"
#include "comm/reduce.h"
#include "lockstep/error.h"
#include "os/peer_watch.h"
#include "os/processors.h"
#include "os/shared_memory.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = CallSignature::Kind;

// What one worker lays out for the others at a time goes into one of its slots, used in turn.
constexpr uint64_t kSlots = 4;
// A worker that has laid out chunk c has finished with chunk c - 3: it lays out one, reduces the
// one before and collects the one before that.
constexpr uint64_t kAhead = 3;
constexpr int kMostWorkers = 256;
// Up to here every worker computes the whole sum, which saves a round; two workers always do.
constexpr size_t kOneRoundBytes = 16U << 10U;
// Copying the next chunk and adding this one take turns at this grain: one waits for memory, the
// other for the peer's cache.
constexpr size_t kGrainBytes = 1U << 10U;

// Small chunks stay in the caches of two workers. More workers than that may have to share cores,
// and a larger chunk means fewer hand-overs; but a large gang may not fill /dev/shm.
size_t chunk_bytes(int size) {
  constexpr size_t kLeast = 128U << 10U;
  constexpr size_t kMost = 512U << 10U;
  constexpr size_t kAllWorkers = 8U << 20U;
  return size == 2 ? kLeast : std::clamp(kAllWorkers / static_cast<size_t>(size), kLeast, kMost);
}

// How far a worker has come: the number of the chunk that it has laid out, with the call that it
// belongs to, and of the chunk whose part it has reduced. A cache line each, so that waiting on one
// disturbs no other.
struct alignas(64) Progress {
  std::atomic<uint64_t> laid_out;
  std::array<std::atomic<uint64_t>, kSlots> signature;  // by the number of the chunk
  std::atomic<uint32_t> has_left;
  alignas(64) std::atomic<uint64_t> reduced;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Progress) == 128);

// The processors that the workers may use, all together.
struct alignas(64) Processors {
  std::array<std::atomic<uint64_t>, 16> words;

  void add(const std::vector<int>& numbers) {
    for (const int number : numbers) {
      const auto bit = static_cast<size_t>(number) % (words.size() * 64);
      words[bit / 64].fetch_or(uint64_t{1} << (bit % 64));
    }
  }

  int count() const {
    int sum = 0;
    for (const auto& word : words) {
      sum += std::popcount(word.load());
    }
    return sum;
  }
};

size_t head_bytes(int size) {
  const size_t bytes = sizeof(Processors) + static_cast<size_t>(size) * sizeof(Progress);
  return (bytes + 4095) / 4096 * 4096;
}

size_t segment_bytes(int size) {
  return head_bytes(size) + static_cast<size_t>(size) * kSlots * chunk_bytes(size);
}

// Tells the others which processors this worker may use; before all have met.
void announce_processors(const os::SharedMemory& memory) {
  reinterpret_cast<Processors*>(memory.data())->add(os::usable_processor_numbers());
}

void relax() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores
#elif defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#endif
}

std::string new_name() {
  std::random_device chance;
  return fmt::format("/lockstep-{:08x}{:08x}", chance(), chance());
}

class SharedMemoryRank final : public Communicator {
 public:
  // All workers have announced their processors.
  SharedMemoryRank(int rank,
                   int size,
                   os::SharedMemory memory,
                   os::PeerWatch peers,
                   std::chrono::milliseconds timeout)
      : rank_(rank),
        size_(size),
        chunk_bytes_(chunk_bytes(size)),
        memory_(std::move(memory)),
        peers_(std::move(peers)),
        timeout_(timeout),
        progress_(reinterpret_cast<Progress*>(memory_.data() + sizeof(Processors))),
        slots_(memory_.data() + head_bytes(size)),
        sources_(static_cast<size_t>(size)) {
    // Whoever spins keeps the core from the peer that it waits for, if there are too few of them.
    const int processors = reinterpret_cast<Processors*>(memory_.data())->count();
    spins_ = processors >= size_ ? 1000 : 20;
  }

  SharedMemoryRank(const SharedMemoryRank&) = delete;
  SharedMemoryRank& operator=(const SharedMemoryRank&) = delete;

  ~SharedMemoryRank() override {
    // One that fails is missed; one that ends well while others wait made other calls than they.
    if (std::uncaught_exceptions() == 0) {
      progress_[rank_].has_left.store(1, std::memory_order_release);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "shared-memory"; }

 protected:
  void do_barrier() override { meet(barrier_signature(*call_record())); }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    begin_call({.kind = Kind::AllReduce,
                .type = tensor.scalar_type(),
                .reduction = reduction,
                .count = tensor.numel()});
    const Elements all{.bytes = static_cast<std::byte*>(tensor.data_ptr()),
                       .count = static_cast<size_t>(tensor.numel()),
                       .width = static_cast<size_t>(tensor.element_size()),
                       .type = tensor.scalar_type(),
                       .reduction = reduction};
    if (size_ == 2) {
      all_reduce_of_two(all);
    } else if (tensor.nbytes() <= kOneRoundBytes) {
      all_reduce_in_one_round(all);
    } else {
      all_reduce_in_parts(all);
    }
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    begin_call({.kind = Kind::Broadcast,
                .type = tensor.scalar_type(),
                .root = root,
                .count = tensor.numel()});
    const size_t total = tensor.nbytes();
    auto* bytes = static_cast<std::byte*>(tensor.data_ptr());
    for (size_t done = 0; done < total; done += chunk_bytes_) {
      const size_t count = std::min(chunk_bytes_, total - done);
      const uint64_t chunk = open_chunk();
      if (rank_ == root) {
        std::memcpy(slot(root, chunk), bytes + done, count);
      }
      lay_out(chunk);
      if (rank_ != root) {
        await(root, chunk);
        std::memcpy(bytes + done, slot(root, chunk), count);
      }
    }
    // Nobody has looked at what the others do; the next call will.
    unchecked_ = last_;
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    begin_call({.kind = Kind::AllGather, .type = input.scalar_type(), .count = input.numel()});
    const size_t total = input.nbytes();
    const auto* from = static_cast<const std::byte*>(input.data_ptr());
    auto* into = static_cast<std::byte*>(output.data_ptr());
    for (size_t done = 0; done < total; done += chunk_bytes_) {
      const size_t count = std::min(chunk_bytes_, total - done);
      const uint64_t chunk = open_chunk();
      std::memcpy(slot(rank_, chunk), from + done, count);
      lay_out(chunk);
      for (int peer = 0; peer < size_; ++peer) {
        await(peer, chunk);
        std::memcpy(into + static_cast<size_t>(peer) * total + done, slot(peer, chunk), count);
      }
    }
  }

  // Per chunk, a slot holds a piece of each worker's part; worker r adds up the r-th pieces.
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    begin_call({.kind = Kind::ReduceScatter, .type = input.scalar_type(), .count = input.numel()});
    const size_t width = input.element_size();
    const auto total = static_cast<size_t>(output.numel());
    const size_t most = chunk_bytes_ / width / static_cast<size_t>(size_);
    const auto* from = static_cast<const std::byte*>(input.data_ptr());
    auto* into = static_cast<std::byte*>(output.data_ptr());
    const auto piece_of = [&](int peer, size_t done) {
      return from + (static_cast<size_t>(peer) * total + done) * width;
    };
    for (size_t done = 0; done < total; done += most) {
      const size_t count = std::min(most, total - done);
      const uint64_t chunk = open_chunk();
      for (int peer = 0; peer < size_; ++peer) {
        if (peer != rank_) {
          std::memcpy(slot(rank_, chunk) + static_cast<size_t>(peer) * count * width,
                      piece_of(peer, done),
                      count * width);
        }
      }
      lay_out(chunk);
      const size_t mine = static_cast<size_t>(rank_) * count * width;
      for (int peer = 0; peer < size_; ++peer) {
        await(peer, chunk);
        source(peer) = peer == rank_ ? piece_of(rank_, done) : slot(peer, chunk) + mine;
      }
      reduce_all(into + done * width, sources_, count, input.scalar_type(), Reduction::Sum);
    }
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    meet({.kind = Kind::Subset, .count = count});
    const torch::Tensor pids = all_gather(torch::full({1}, os::process_id(), torch::kInt64));
    std::optional<os::SharedMemory> memory;
    std::string name;
    if (rank_ == 0) {
      name = new_name();
      memory = os::SharedMemory::create(name, segment_bytes(count));
    }
    name = broadcast_bytes(name);
    if (rank_ > 0 && rank_ < count) {
      memory = os::SharedMemory::open(name, segment_bytes(count));
    }
    os::PeerWatch peers;
    bool is_well = rank_ >= count || memory.has_value();
    for (int peer = 0; peer < count && rank_ < count; ++peer) {
      is_well =
          is_well && (peer == rank_ || peers.add(static_cast<int>(pids[peer].item<int64_t>())));
    }
    if (memory) {
      announce_processors(*memory);
    }
    torch::Tensor all_well = torch::full({1}, is_well ? 1 : 0, torch::kInt64);
    all_reduce(all_well, Reduction::Min);
    if (rank_ == 0) {
      os::SharedMemory::remove_name(name);
    }
    if (all_well.item<int64_t>() == 0) {
      throw Error(ExitCode::Unavailable, "cannot make a second channel of shared memory")
          .fact("needed", format_bytes(segment_bytes(count)), "/dev/shm")
          .hint("--transport gloo");
    }
    if (rank_ >= count) {
      return nullptr;
    }
    return std::make_unique<SharedMemoryRank>(
        rank_, count, std::move(*memory), std::move(peers), timeout_);
  }

 private:
  // What an all-reduce works on.
  struct Elements {
    std::byte* bytes;
    size_t count;
    size_t width;
    torch::ScalarType type;
    Reduction reduction;
  };

  struct Part {
    size_t begin;
    size_t end;
  };

  // Each of two workers computes the whole sum: a + b is the same on both. While it adds up one
  // chunk it lays out the next.
  void all_reduce_of_two(const Elements& all) {
    const int peer = 1 - rank_;
    const size_t most = chunk_bytes_ / all.width;
    const size_t grain = kGrainBytes / all.width;
    uint64_t chunk = open_chunk();
    std::memcpy(slot(rank_, chunk), all.bytes, std::min(most, all.count) * all.width);
    lay_out(chunk);
    for (size_t done = 0; done < all.count; done += most) {
      std::byte* mine = all.bytes + done * all.width;
      const size_t count = std::min(most, all.count - done);
      const size_t next_count = std::min(most, all.count - done - count);
      await(peer, chunk);
      const std::byte* theirs = slot(peer, chunk);
      const auto add = [&](size_t begin, size_t length) {
        source(rank_) = mine + begin * all.width;
        source(peer) = theirs + begin * all.width;
        reduce_all(mine + begin * all.width, sources_, length, all.type, all.reduction);
      };
      if (next_count == 0) {
        add(0, count);
        return;
      }
      chunk = open_chunk();
      std::byte* next = slot(rank_, chunk);
      for (size_t begin = 0; begin < count; begin += grain) {
        if (begin < next_count) {
          std::memcpy(next + begin * all.width,
                      mine + (count + begin) * all.width,
                      std::min(grain, next_count - begin) * all.width);
        }
        add(begin, std::min(grain, count - begin));
      }
      lay_out(chunk);
    }
  }

  void all_reduce_in_one_round(const Elements& all) {
    const uint64_t chunk = open_chunk();
    std::memcpy(slot(rank_, chunk), all.bytes, all.count * all.width);
    lay_out(chunk);
    for (int peer = 0; peer < size_; ++peer) {
      await(peer, chunk);
      source(peer) = peer == rank_ ? all.bytes : slot(peer, chunk);
    }
    reduce_all(all.bytes, sources_, all.count, all.type, all.reduction);
  }

  // Per chunk: everyone lays out what the others need; worker r reduces the r-th part in the order
  // of ranks, and leaves it in its slot, where that part is free; everyone collects the parts of
  // the others. The three steps of three chunks are under way at once.
  void all_reduce_in_parts(const Elements& all) {
    const size_t most = chunk_bytes_ / all.width;
    const size_t chunks = (all.count + most - 1) / most;
    const uint64_t first = last_ + 1;
    for (size_t i = 0; i < chunks + 2; ++i) {
      if (i < chunks) {
        lay_out_for_others(chunk_of(all, i * most, most), open_chunk());
      }
      if (i >= 1 && i - 1 < chunks) {
        reduce_my_part(chunk_of(all, (i - 1) * most, most), first + i - 1);
      }
      if (i >= 2) {
        collect_parts(chunk_of(all, (i - 2) * most, most), first + i - 2);
      }
    }
  }

  static Elements chunk_of(Elements all, size_t begin, size_t most) {
    all.bytes += begin * all.width;
    all.count = std::min(most, all.count - begin);
    return all;
  }

  void lay_out_for_others(const Elements& piece, uint64_t chunk) {
    const auto [begin, end] = part_of(rank_, piece.count);
    std::byte* into = slot(rank_, chunk);
    std::memcpy(into, piece.bytes, begin * piece.width);
    std::memcpy(into + end * piece.width,
                piece.bytes + end * piece.width,
                (piece.count - end) * piece.width);
    lay_out(chunk);
  }

  void reduce_my_part(const Elements& piece, uint64_t chunk) {
    const auto [begin, end] = part_of(rank_, piece.count);
    const size_t offset = begin * piece.width;
    for (int peer = 0; peer < size_; ++peer) {
      await(peer, chunk);
      source(peer) = (peer == rank_ ? piece.bytes : slot(peer, chunk)) + offset;
    }
    std::byte* sum = slot(rank_, chunk) + offset;
    reduce_all(sum, sources_, end - begin, piece.type, piece.reduction);
    progress_[rank_].reduced.store(chunk, std::memory_order_release);
    std::memcpy(piece.bytes + offset, sum, (end - begin) * piece.width);
  }

  void collect_parts(const Elements& piece, uint64_t chunk) {
    // Each begins with its neighbour, lest all read from one.
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      wait_for(progress_[peer].reduced, chunk, peer);
      const auto [begin, end] = part_of(peer, piece.count);
      std::memcpy(piece.bytes + begin * piece.width,
                  slot(peer, chunk) + begin * piece.width,
                  (end - begin) * piece.width);
    }
  }

  Part part_of(int peer, size_t count) const {
    const auto index = static_cast<size_t>(peer);
    const auto parts = static_cast<size_t>(size_);
    return {count * index / parts, count * (index + 1) / parts};
  }

  void meet(const CallSignature& call) {
    begin_call(call);
    const uint64_t chunk = open_chunk();
    lay_out(chunk);
    for (int peer = 0; peer < size_; ++peer) {
      await(peer, chunk);
    }
  }

  void begin_call(const CallSignature& call) {
    next_signature_ = call.packed();
    is_first_chunk_ = true;
  }

  // The next chunk, when all have finished with what lies in its slot.
  uint64_t open_chunk() {
    const uint64_t chunk = last_ + 1;
    if (chunk + kAhead > kSlots) {
      const uint64_t least = chunk + kAhead - kSlots;
      for (int peer = 0; peer < size_; ++peer) {
        wait_for(progress_[peer].laid_out, least, peer);
        if (unchecked_ != 0) {
          check(peer, unchecked_);
        }
      }
      unchecked_ = 0;
    }
    if (is_first_chunk_) {
      signature_ = next_signature_;
      is_first_chunk_ = false;
    }
    last_ = chunk;
    return chunk;
  }

  void lay_out(uint64_t chunk) {
    Progress& mine = progress_[rank_];
    mine.signature[chunk % kSlots].store(signature_, std::memory_order_relaxed);
    mine.laid_out.store(chunk, std::memory_order_release);
  }

  // Returns when `peer` has laid out this chunk, of the same call as ours.
  void await(int peer, uint64_t chunk) {
    wait_for(progress_[peer].laid_out, chunk, peer);
    check(peer, chunk);
  }

  void check(int peer, uint64_t chunk) const {
    const auto& theirs = progress_[peer].signature[chunk % kSlots];
    if (theirs.load(std::memory_order_relaxed) != signature_) {
      throw_different_calls(chunk);
    }
  }

  [[noreturn]] void throw_different_calls(uint64_t chunk) const {
    // Those who are on their way shall be in the message too.
    const auto patience = Clock::now() + std::chrono::milliseconds(300);
    std::vector<std::optional<CallSignature>> calls;
    for (int peer = 0; peer < size_; ++peer) {
      const Progress& theirs = progress_[peer];
      while (theirs.laid_out.load(std::memory_order_acquire) < chunk &&
             theirs.has_left.load(std::memory_order_acquire) == 0 && Clock::now() < patience) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      if (peer == rank_) {
        calls.emplace_back(CallSignature::unpacked(signature_));
      } else if (theirs.laid_out.load(std::memory_order_acquire) >= chunk) {
        calls.emplace_back(CallSignature::unpacked(theirs.signature[chunk % kSlots].load()));
      } else if (theirs.has_left.load(std::memory_order_acquire) != 0) {
        calls.emplace_back(CallSignature{.kind = Kind::End});
      } else {
        calls.emplace_back();
      }
    }
    throw different_calls(calls);
  }

  std::byte* slot(int peer, uint64_t chunk) const {
    const size_t index = chunk % kSlots * static_cast<size_t>(size_) + static_cast<size_t>(peer);
    return slots_ + index * chunk_bytes_;
  }

  const void*& source(int peer) { return sources_[static_cast<size_t>(peer)]; }

  // Spins first, because a peer is mostly microseconds away; then gives its core to the others, for
  // there may be more workers than cores; then sleeps, and looks whether the peers live.
  void wait_for(const std::atomic<uint64_t>& number, uint64_t least, int peer) const {
    constexpr int kYields = 2000;
    for (int i = 0; i < spins_ + kYields; ++i) {
      if (number.load(std::memory_order_acquire) >= least) {
        return;
      }
      if (i < spins_) {
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
      const bool has_left = progress_[peer].has_left.load(std::memory_order_acquire) != 0;
      const auto ended = peers_.find_ended();
      // A peer may lay out its last chunk and end; look once more before giving up.
      if (number.load(std::memory_order_acquire) >= least) {
        return;
      }
      if (has_left) {
        throw_different_calls(last_);
      }
      if (ended) {
        const int lost = *ended < rank_ ? *ended : *ended + 1;
        throw Error(ExitCode::TryAgain,
                    fmt::format("cannot finish {}: rank {} is gone", call_name(), lost))
            .fact("waiting for", fmt::format("rank {}", peer), "shared memory");
      }
      if (now - start > timeout_) {
        throw Error(ExitCode::TryAgain,
                    fmt::format("cannot finish {}: rank {} did not come within {}",
                                call_name(),
                                peer,
                                format_duration(std::chrono::duration<double>(timeout_).count())));
      }
    }
  }

  std::string call_name() const {
    const std::string text = CallSignature::unpacked(next_signature_).text();
    return text.substr(0, text.find(" of "));
  }

  int rank_;
  int size_;
  size_t chunk_bytes_;
  os::SharedMemory memory_;
  os::PeerWatch peers_;  // all but this worker, in the order of ranks
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  std::byte* slots_;
  int spins_ = 0;
  uint64_t last_ = 0;            // the newest chunk
  uint64_t unchecked_ = 0;       // a chunk whose call nobody has compared yet; 0: none
  uint64_t next_signature_ = 0;  // of this call
  uint64_t signature_ = 0;       // of the newest chunk's call
  bool is_first_chunk_ = false;
  std::vector<const void*> sources_;  // what reduce_all() reads, in the order of ranks
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
    name = new_name();
    memory = os::SharedMemory::create(name, segment_bytes(size));
    store.set("shm/name", to_bytes(memory ? name : ""));
  } else {
    name = get_text(store, "shm/name");
    if (!name.empty()) {
      memory = os::SharedMemory::open(name, segment_bytes(size));
    }
  }
  if (memory) {
    announce_processors(*memory);
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

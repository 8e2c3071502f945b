// SPDX-License-Identifier: Apache-2.0
#include "training/comm/shared_memory_slots.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <fmt/format.h>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/os/processors.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

// For two workers, small chunks stay in their caches. More workers may have to share cores, and
// larger chunks mean fewer context switches. The total is limited so that many workers do not fill
// /dev/shm.
size_t choose_chunk_bytes(int size) {
  constexpr size_t kMinBytes = 128U << 10U;
  constexpr size_t kMaxBytes = 512U << 10U;
  constexpr size_t kAllWorkers = 8U << 20U;
  return size == 2 ? kMinBytes
                   : std::clamp(kAllWorkers / static_cast<size_t>(size), kMinBytes, kMaxBytes);
}

// Set of the processors that any of the workers may use, one bit each.
// A new segment is zero, which is a valid state of all atomics in it: no worker has to initialize
// it for the others.
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

void relax() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` has no effect on most cores
#elif defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#endif
}

}  // namespace

static_assert(sizeof(Processors) == 128, "the layout in the header");

size_t SharedMemorySlots::head_bytes(int size) {
  const size_t bytes = sizeof(Processors) + static_cast<size_t>(size) * sizeof(Progress);
  return (bytes + 4095) / 4096 * 4096;
}

size_t SharedMemorySlots::needed_bytes(int size) {
  return head_bytes(size) + static_cast<size_t>(size) * kSlots * choose_chunk_bytes(size);
}

void SharedMemorySlots::announce_processors(const os::SharedMemory& memory) {
  reinterpret_cast<Processors*>(memory.data())->add(os::usable_processor_numbers());
}

SharedMemorySlots::SharedMemorySlots(int rank,
                                     int size,
                                     os::SharedMemory memory,
                                     os::PeerWatch peers,
                                     std::chrono::milliseconds timeout)
    : rank_(rank),
      size_(size),
      chunk_bytes_(choose_chunk_bytes(size)),
      memory_(std::move(memory)),
      peers_(std::move(peers)),
      timeout_(timeout),
      progress_(reinterpret_cast<Progress*>(memory_.data() + sizeof(Processors))),
      slots_(memory_.data() + head_bytes(size)) {
  // If there are fewer processors than workers, a spinning worker occupies the core that its peer
  // needs.
  const int processors = reinterpret_cast<Processors*>(memory_.data())->count();
  spins_ = processors >= size_ ? 1000 : 20;
}

SharedMemorySlots::~SharedMemorySlots() {
  // Peers report a failed worker as lost. A worker that ends normally while others wait has made
  // other calls than they did; has_left distinguishes these cases.
  if (std::uncaught_exceptions() == 0) {
    progress_[rank_].has_left.store(1, std::memory_order_release);
  }
}

void SharedMemorySlots::begin_call(const CallSignature& call) {
  next_signature_ = call.packed();
  is_first_chunk_ = true;
}

uint64_t SharedMemorySlots::open_chunk() {
  // No worker may still read chunk `chunk` - kSlots from the slots that are reused. See kAhead: a
  // worker that has published chunk `minimum` has finished with chunk `minimum` - kAhead.
  const uint64_t chunk = last_ + 1;
  if (chunk + kAhead > kSlots) {
    const uint64_t minimum = chunk + kAhead - kSlots;
    for (int peer = 0; peer < size_; ++peer) {
      wait_for(progress_[peer].published, minimum, peer);
      if (unchecked_ != 0) {
        check(peer, unchecked_);
      }
    }
    unchecked_ = 0;
  }
  // Only now: the deferred check above compares the previous call of the peers with signature_.
  if (is_first_chunk_) {
    signature_ = next_signature_;
    is_first_chunk_ = false;
  }
  last_ = chunk;
  return chunk;
}

void SharedMemorySlots::publish(uint64_t chunk) {
  Progress& mine = progress_[rank_];
  // The release store of published also publishes the signature, which can be relaxed.
  mine.signature[chunk % kSlots].store(signature_, std::memory_order_relaxed);
  mine.published.store(chunk, std::memory_order_release);
}

void SharedMemorySlots::await(int peer, uint64_t chunk) {
  wait_for(progress_[peer].published, chunk, peer);
  check(peer, chunk);
}

void SharedMemorySlots::mark_reduced(uint64_t chunk) {
  progress_[rank_].reduced.store(chunk, std::memory_order_release);
}

void SharedMemorySlots::await_reduced(int peer, uint64_t chunk) const {
  wait_for(progress_[peer].reduced, chunk, peer);
}

void SharedMemorySlots::check(int peer, uint64_t chunk) const {
  const auto& theirs = progress_[peer].signature[chunk % kSlots];
  if (theirs.load(std::memory_order_relaxed) != signature_) {
    throw_different_calls(chunk);
  }
}

void SharedMemorySlots::throw_different_calls(uint64_t chunk) const {
  // Waits a moment for late workers, so that the message shows their calls too.
  const auto patience = Clock::now() + std::chrono::milliseconds(300);
  std::vector<std::optional<CallSignature>> calls;
  for (int peer = 0; peer < size_; ++peer) {
    const Progress& theirs = progress_[peer];
    while (theirs.published.load(std::memory_order_acquire) < chunk &&
           theirs.has_left.load(std::memory_order_acquire) == 0 && Clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (peer == rank_) {
      calls.emplace_back(CallSignature::unpacked(signature_));
    } else if (theirs.published.load(std::memory_order_acquire) >= chunk) {
      calls.emplace_back(CallSignature::unpacked(theirs.signature[chunk % kSlots].load()));
    } else if (theirs.has_left.load(std::memory_order_acquire) != 0) {
      calls.emplace_back(CallSignature{.kind = CallSignature::Kind::End});
    } else {
      calls.emplace_back();
    }
  }
  throw different_calls(calls);
}

// Spins first, because a peer usually arrives within microseconds. Then yields, because there may
// be more workers than cores. Then sleeps, and checks whether the peers are alive.
void SharedMemorySlots::wait_for(const std::atomic<uint64_t>& number,
                                 uint64_t minimum,
                                 int peer) const {
  constexpr int kYields = 2000;
  for (int i = 0; i < spins_ + kYields; ++i) {
    if (number.load(std::memory_order_acquire) >= minimum) {
      return;
    }
    if (i < spins_) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
  wait_long_for(number, minimum, peer);
}

void SharedMemorySlots::wait_long_for(const std::atomic<uint64_t>& number,
                                      uint64_t minimum,
                                      int peer) const {
  const auto start = Clock::now();
  auto next_look = start + std::chrono::milliseconds(2);
  while (number.load(std::memory_order_acquire) < minimum) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const auto now = Clock::now();
    if (now < next_look) {
      continue;
    }
    next_look = now + std::chrono::milliseconds(5);
    const bool has_left = progress_[peer].has_left.load(std::memory_order_acquire) != 0;
    const auto ended = peers_.find_ended();
    // A peer may publish its last chunk and exit between the two loads, so the number is read again
    // after the liveness check.
    if (number.load(std::memory_order_acquire) >= minimum) {
      return;
    }
    if (has_left) {
      throw_different_calls(last_);
    }
    if (ended) {
      const int lost = *ended < rank_ ? *ended : *ended + 1;
      throw Error(ExitCode::TryAgain,
                  fmt::format("cannot finish {}: rank {} has exited", call_name(), lost))
          .fact("waiting for", fmt::format("rank {}", peer), "shared memory");
    }
    if (now - start > timeout_) {
      throw Error(ExitCode::TryAgain,
                  fmt::format("cannot finish {}: rank {} did not arrive within {}",
                              call_name(),
                              peer,
                              format_duration(std::chrono::duration<double>(timeout_).count())));
    }
  }
}

std::string SharedMemorySlots::call_name() const {
  const std::string text = CallSignature::unpacked(next_signature_).text();
  return text.substr(0, text.find(" of "));
}

}  // namespace lockstep::comm

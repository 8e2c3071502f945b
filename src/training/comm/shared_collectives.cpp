// SPDX-License-Identifier: Apache-2.0
#include "training/comm/shared_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/base/check.h"
#include "training/comm/reduce.h"

namespace lockstep::comm {
namespace {

using Kind = CallSignature::Kind;

// Up to this size every worker computes the whole sum, which saves a round. Two workers always do.
constexpr size_t kOneRoundBytes = 16U << 10U;
// Copying the next chunk and adding the current one alternate in pieces of this size: the first
// waits for main memory, the second for the cache of the peer.
constexpr size_t kGrainBytes = 1U << 10U;

// The elements of an all-reduce.
struct Elements {
  std::byte* bytes;
  size_t count;
  size_t width;
  torch::ScalarType type;
  Reduction reduction;
};

// The inputs of reduce_all(), in the order of ranks.
class Sources {
 public:
  explicit Sources(const SharedMemorySlots& slots) : count_(static_cast<size_t>(slots.size())) {}

  const void*& operator[](int rank) { return pointers_[static_cast<size_t>(rank)]; }
  std::span<const void* const> all() const { return {pointers_.data(), count_}; }

 private:
  std::array<const void*, SharedMemorySlots::kMaxWorkers> pointers_ = {};
  size_t count_;
};

struct Part {
  size_t begin;
  size_t end;
};

// Each of two workers computes the whole sum: a + b is equal on both. While it adds one chunk, it
// copies the next one into its slot.
void all_reduce_of_two(SharedMemorySlots& slots, const Elements& all) {
  const int peer = 1 - slots.rank();
  const size_t max_elements = slots.chunk_bytes() / all.width;
  const size_t grain = kGrainBytes / all.width;
  std::array<const void*, 2> sources = {};
  uint64_t chunk = slots.open_chunk();
  std::memcpy(
      slots.slot(slots.rank(), chunk), all.bytes, std::min(max_elements, all.count) * all.width);
  slots.publish(chunk);
  for (size_t done = 0; done < all.count; done += max_elements) {
    std::byte* mine = all.bytes + done * all.width;
    const size_t count = std::min(max_elements, all.count - done);
    const size_t next_count = std::min(max_elements, all.count - done - count);
    slots.await(peer, chunk);
    const std::byte* theirs = slots.slot(peer, chunk);
    const auto add = [&](size_t begin, size_t length) {
      sources[static_cast<size_t>(slots.rank())] = mine + begin * all.width;
      sources[static_cast<size_t>(peer)] = theirs + begin * all.width;
      reduce_all(mine + begin * all.width, sources, length, all.type, all.reduction);
    };
    if (next_count == 0) {
      add(0, count);
      return;
    }
    chunk = slots.open_chunk();
    std::byte* next = slots.slot(slots.rank(), chunk);
    for (size_t begin = 0; begin < count; begin += grain) {
      if (begin < next_count) {
        std::memcpy(next + begin * all.width,
                    mine + (count + begin) * all.width,
                    std::min(grain, next_count - begin) * all.width);
      }
      add(begin, std::min(grain, count - begin));
    }
    slots.publish(chunk);
  }
}

// Small tensors of three or more workers: latency decides. Every worker adds up all slots, which
// costs W reads per element but only one wait.
void all_reduce_in_one_round(SharedMemorySlots& slots, const Elements& all) {
  Sources sources(slots);
  LOCKSTEP_CHECK(all.count * all.width <= slots.chunk_bytes());
  const uint64_t chunk = slots.open_chunk();
  std::memcpy(slots.slot(slots.rank(), chunk), all.bytes, all.count * all.width);
  slots.publish(chunk);
  for (int peer = 0; peer < slots.size(); ++peer) {
    slots.await(peer, chunk);
    sources[peer] = peer == slots.rank() ? all.bytes : slots.slot(peer, chunk);
  }
  reduce_all(all.bytes, sources.all(), all.count, all.type, all.reduction);
}

// The part of `count` elements that `peer` reduces.
Part part_of(const SharedMemorySlots& slots, int peer, size_t count) {
  const auto index = static_cast<size_t>(peer);
  const auto parts = static_cast<size_t>(slots.size());
  return {count * index / parts, count * (index + 1) / parts};
}

Elements chunk_of(Elements all, size_t begin, size_t max_elements) {
  all.bytes += begin * all.width;
  all.count = std::min(max_elements, all.count - begin);
  return all;
}

// Part r of the slot of worker r is not copied: no other worker reads it before mark_reduced(), and
// the sum will be stored there.
void publish_for_others(SharedMemorySlots& slots, const Elements& piece, uint64_t chunk) {
  const auto [begin, end] = part_of(slots, slots.rank(), piece.count);
  std::byte* into = slots.slot(slots.rank(), chunk);
  std::memcpy(into, piece.bytes, begin * piece.width);
  std::memcpy(
      into + end * piece.width, piece.bytes + end * piece.width, (piece.count - end) * piece.width);
  slots.publish(chunk);
}

void reduce_my_part(SharedMemorySlots& slots, const Elements& piece, uint64_t chunk) {
  const auto [begin, end] = part_of(slots, slots.rank(), piece.count);
  const size_t offset = begin * piece.width;
  Sources sources(slots);
  for (int peer = 0; peer < slots.size(); ++peer) {
    slots.await(peer, chunk);
    sources[peer] = (peer == slots.rank() ? piece.bytes : slots.slot(peer, chunk)) + offset;
  }
  std::byte* sum = slots.slot(slots.rank(), chunk) + offset;
  reduce_all(sum, sources.all(), end - begin, piece.type, piece.reduction);
  slots.mark_reduced(chunk);
  std::memcpy(piece.bytes + offset, sum, (end - begin) * piece.width);
}

void collect_parts(SharedMemorySlots& slots, const Elements& piece, uint64_t chunk) {
  // Each worker starts with its neighbour, so that not all read from the same worker.
  for (int step = 1; step < slots.size(); ++step) {
    const int peer = (slots.rank() + step) % slots.size();
    slots.await_reduced(peer, chunk);
    const auto [begin, end] = part_of(slots, peer, piece.count);
    std::memcpy(piece.bytes + begin * piece.width,
                slots.slot(peer, chunk) + begin * piece.width,
                (end - begin) * piece.width);
  }
}

// For each chunk:
// - every worker publishes the parts that the others reduce;
// - worker r reduces part r in the order of ranks, and stores the sum in part r of its own slot,
//   which it has not published and no worker reads before mark_reduced();
// - every worker collects the reduced parts of the others.
//
// The loop overlaps the three steps: in iteration i it publishes chunk i, reduces chunk i - 1 and
// collects chunk i - 2. This is why a worker finishes with a chunk only three chunks later
// (SharedMemorySlots::kAhead).
void all_reduce_in_parts(SharedMemorySlots& slots, const Elements& all) {
  const size_t max_elements = slots.chunk_bytes() / all.width;
  const size_t chunks = (all.count + max_elements - 1) / max_elements;
  const uint64_t first = slots.last_chunk() + 1;
  for (size_t i = 0; i < chunks + 2; ++i) {
    if (i < chunks) {
      publish_for_others(slots, chunk_of(all, i * max_elements, max_elements), slots.open_chunk());
    }
    if (i >= 1 && i - 1 < chunks) {
      reduce_my_part(slots, chunk_of(all, (i - 1) * max_elements, max_elements), first + i - 1);
    }
    if (i >= 2) {
      collect_parts(slots, chunk_of(all, (i - 2) * max_elements, max_elements), first + i - 2);
    }
  }
}

}  // namespace

void barrier(SharedMemorySlots& slots, const CallSignature& call) {
  slots.begin_call(call);
  const uint64_t chunk = slots.open_chunk();
  slots.publish(chunk);
  for (int peer = 0; peer < slots.size(); ++peer) {
    slots.await(peer, chunk);
  }
}

void all_reduce(SharedMemorySlots& slots, torch::Tensor& tensor, Reduction reduction) {
  slots.begin_call({.kind = Kind::AllReduce,
                    .type = tensor.scalar_type(),
                    .reduction = reduction,
                    .count = tensor.numel()});
  const Elements all{.bytes = static_cast<std::byte*>(tensor.data_ptr()),
                     .count = static_cast<size_t>(tensor.numel()),
                     .width = static_cast<size_t>(tensor.element_size()),
                     .type = tensor.scalar_type(),
                     .reduction = reduction};
  if (slots.size() == 2) {
    all_reduce_of_two(slots, all);
  } else if (tensor.nbytes() <= kOneRoundBytes) {
    all_reduce_in_one_round(slots, all);
  } else {
    all_reduce_in_parts(slots, all);
  }
}

void broadcast(SharedMemorySlots& slots, torch::Tensor& tensor, int root) {
  slots.begin_call({.kind = Kind::Broadcast,
                    .type = tensor.scalar_type(),
                    .root = root,
                    .count = tensor.numel()});
  const size_t total = tensor.nbytes();
  auto* bytes = static_cast<std::byte*>(tensor.data_ptr());
  for (size_t done = 0; done < total; done += slots.chunk_bytes()) {
    const size_t count = std::min(slots.chunk_bytes(), total - done);
    const uint64_t chunk = slots.open_chunk();
    if (slots.rank() == root) {
      std::memcpy(slots.slot(root, chunk), bytes + done, count);
    }
    slots.publish(chunk);
    if (slots.rank() != root) {
      slots.await(root, chunk);
      std::memcpy(bytes + done, slots.slot(root, chunk), count);
    }
  }
  // Only the slot of the root was awaited. The next call checks the signatures of the others.
  slots.check_later();
}

// A worker finishes with chunk c before it opens chunk c + 1: its slots are free again earlier than
// kAhead requires. The same holds for reduce_scatter(), barrier() and broadcast().
void all_gather(SharedMemorySlots& slots, torch::Tensor& output, const torch::Tensor& input) {
  slots.begin_call({.kind = Kind::AllGather, .type = input.scalar_type(), .count = input.numel()});
  const size_t total = input.nbytes();
  const auto* from = static_cast<const std::byte*>(input.data_ptr());
  auto* into = static_cast<std::byte*>(output.data_ptr());
  for (size_t done = 0; done < total; done += slots.chunk_bytes()) {
    const size_t count = std::min(slots.chunk_bytes(), total - done);
    const uint64_t chunk = slots.open_chunk();
    std::memcpy(slots.slot(slots.rank(), chunk), from + done, count);
    slots.publish(chunk);
    for (int peer = 0; peer < slots.size(); ++peer) {
      slots.await(peer, chunk);
      std::memcpy(into + static_cast<size_t>(peer) * total + done, slots.slot(peer, chunk), count);
    }
  }
}

// In each chunk, a slot holds a piece of the part of every worker; worker r adds the pieces of part
// r.
void reduce_scatter(SharedMemorySlots& slots, torch::Tensor& output, const torch::Tensor& input) {
  slots.begin_call(
      {.kind = Kind::ReduceScatter, .type = input.scalar_type(), .count = input.numel()});
  const size_t width = input.element_size();
  const auto total = static_cast<size_t>(output.numel());
  const size_t max_elements = slots.chunk_bytes() / width / static_cast<size_t>(slots.size());
  const auto* from = static_cast<const std::byte*>(input.data_ptr());
  auto* into = static_cast<std::byte*>(output.data_ptr());
  Sources sources(slots);
  const auto piece_of = [&](int peer, size_t done) {
    return from + (static_cast<size_t>(peer) * total + done) * width;
  };
  for (size_t done = 0; done < total; done += max_elements) {
    const size_t count = std::min(max_elements, total - done);
    const uint64_t chunk = slots.open_chunk();
    for (int peer = 0; peer < slots.size(); ++peer) {
      if (peer != slots.rank()) {
        std::memcpy(slots.slot(slots.rank(), chunk) + static_cast<size_t>(peer) * count * width,
                    piece_of(peer, done),
                    count * width);
      }
    }
    slots.publish(chunk);
    const size_t mine = static_cast<size_t>(slots.rank()) * count * width;
    for (int peer = 0; peer < slots.size(); ++peer) {
      slots.await(peer, chunk);
      sources[peer] =
          peer == slots.rank() ? piece_of(slots.rank(), done) : slots.slot(peer, chunk) + mine;
    }
    reduce_all(into + done * width, sources.all(), count, input.scalar_type(), Reduction::Sum);
  }
}

}  // namespace lockstep::comm

// SPDX-License-Identifier: Apache-2.0
#include "training/comm/shared_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

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
  explicit Sources(const SharedBoard& board) : count_(static_cast<size_t>(board.size())) {}

  const void*& operator[](int rank) { return pointers_[static_cast<size_t>(rank)]; }
  std::span<const void* const> all() const { return {pointers_.data(), count_}; }

 private:
  std::array<const void*, SharedBoard::kMostWorkers> pointers_ = {};
  size_t count_;
};

struct Part {
  size_t begin;
  size_t end;
};

// Each of two workers computes the whole sum: a + b is equal on both. While it adds one chunk, it
// copies the next one into its slot.
void all_reduce_of_two(SharedBoard& board, const Elements& all) {
  const int peer = 1 - board.rank();
  const size_t most = board.chunk_bytes() / all.width;
  const size_t grain = kGrainBytes / all.width;
  std::array<const void*, 2> sources = {};
  uint64_t chunk = board.open_chunk();
  std::memcpy(board.slot(board.rank(), chunk), all.bytes, std::min(most, all.count) * all.width);
  board.lay_out(chunk);
  for (size_t done = 0; done < all.count; done += most) {
    std::byte* mine = all.bytes + done * all.width;
    const size_t count = std::min(most, all.count - done);
    const size_t next_count = std::min(most, all.count - done - count);
    board.await(peer, chunk);
    const std::byte* theirs = board.slot(peer, chunk);
    const auto add = [&](size_t begin, size_t length) {
      sources[static_cast<size_t>(board.rank())] = mine + begin * all.width;
      sources[static_cast<size_t>(peer)] = theirs + begin * all.width;
      reduce_all(mine + begin * all.width, sources, length, all.type, all.reduction);
    };
    if (next_count == 0) {
      add(0, count);
      return;
    }
    chunk = board.open_chunk();
    std::byte* next = board.slot(board.rank(), chunk);
    for (size_t begin = 0; begin < count; begin += grain) {
      if (begin < next_count) {
        std::memcpy(next + begin * all.width,
                    mine + (count + begin) * all.width,
                    std::min(grain, next_count - begin) * all.width);
      }
      add(begin, std::min(grain, count - begin));
    }
    board.lay_out(chunk);
  }
}

void all_reduce_in_one_round(SharedBoard& board, const Elements& all) {
  Sources sources(board);
  const uint64_t chunk = board.open_chunk();
  std::memcpy(board.slot(board.rank(), chunk), all.bytes, all.count * all.width);
  board.lay_out(chunk);
  for (int peer = 0; peer < board.size(); ++peer) {
    board.await(peer, chunk);
    sources[peer] = peer == board.rank() ? all.bytes : board.slot(peer, chunk);
  }
  reduce_all(all.bytes, sources.all(), all.count, all.type, all.reduction);
}

// The part of `count` elements that `peer` reduces.
Part part_of(const SharedBoard& board, int peer, size_t count) {
  const auto index = static_cast<size_t>(peer);
  const auto parts = static_cast<size_t>(board.size());
  return {count * index / parts, count * (index + 1) / parts};
}

Elements chunk_of(Elements all, size_t begin, size_t most) {
  all.bytes += begin * all.width;
  all.count = std::min(most, all.count - begin);
  return all;
}

void lay_out_for_others(SharedBoard& board, const Elements& piece, uint64_t chunk) {
  const auto [begin, end] = part_of(board, board.rank(), piece.count);
  std::byte* into = board.slot(board.rank(), chunk);
  std::memcpy(into, piece.bytes, begin * piece.width);
  std::memcpy(
      into + end * piece.width, piece.bytes + end * piece.width, (piece.count - end) * piece.width);
  board.lay_out(chunk);
}

void reduce_my_part(SharedBoard& board, const Elements& piece, uint64_t chunk) {
  const auto [begin, end] = part_of(board, board.rank(), piece.count);
  const size_t offset = begin * piece.width;
  Sources sources(board);
  for (int peer = 0; peer < board.size(); ++peer) {
    board.await(peer, chunk);
    sources[peer] = (peer == board.rank() ? piece.bytes : board.slot(peer, chunk)) + offset;
  }
  std::byte* sum = board.slot(board.rank(), chunk) + offset;
  reduce_all(sum, sources.all(), end - begin, piece.type, piece.reduction);
  board.mark_reduced(chunk);
  std::memcpy(piece.bytes + offset, sum, (end - begin) * piece.width);
}

void collect_parts(SharedBoard& board, const Elements& piece, uint64_t chunk) {
  // Each worker starts with its neighbour, so that not all read from the same worker.
  for (int step = 1; step < board.size(); ++step) {
    const int peer = (board.rank() + step) % board.size();
    board.await_reduced(peer, chunk);
    const auto [begin, end] = part_of(board, peer, piece.count);
    std::memcpy(piece.bytes + begin * piece.width,
                board.slot(peer, chunk) + begin * piece.width,
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
// (SharedBoard::kAhead).
void all_reduce_in_parts(SharedBoard& board, const Elements& all) {
  const size_t most = board.chunk_bytes() / all.width;
  const size_t chunks = (all.count + most - 1) / most;
  const uint64_t first = board.last_chunk() + 1;
  for (size_t i = 0; i < chunks + 2; ++i) {
    if (i < chunks) {
      lay_out_for_others(board, chunk_of(all, i * most, most), board.open_chunk());
    }
    if (i >= 1 && i - 1 < chunks) {
      reduce_my_part(board, chunk_of(all, (i - 1) * most, most), first + i - 1);
    }
    if (i >= 2) {
      collect_parts(board, chunk_of(all, (i - 2) * most, most), first + i - 2);
    }
  }
}

}  // namespace

void meet(SharedBoard& board, const CallSignature& call) {
  board.begin_call(call);
  const uint64_t chunk = board.open_chunk();
  board.lay_out(chunk);
  for (int peer = 0; peer < board.size(); ++peer) {
    board.await(peer, chunk);
  }
}

void all_reduce(SharedBoard& board, torch::Tensor& tensor, Reduction reduction) {
  board.begin_call({.kind = Kind::AllReduce,
                    .type = tensor.scalar_type(),
                    .reduction = reduction,
                    .count = tensor.numel()});
  const Elements all{.bytes = static_cast<std::byte*>(tensor.data_ptr()),
                     .count = static_cast<size_t>(tensor.numel()),
                     .width = static_cast<size_t>(tensor.element_size()),
                     .type = tensor.scalar_type(),
                     .reduction = reduction};
  if (board.size() == 2) {
    all_reduce_of_two(board, all);
  } else if (tensor.nbytes() <= kOneRoundBytes) {
    all_reduce_in_one_round(board, all);
  } else {
    all_reduce_in_parts(board, all);
  }
}

void broadcast(SharedBoard& board, torch::Tensor& tensor, int root) {
  board.begin_call({.kind = Kind::Broadcast,
                    .type = tensor.scalar_type(),
                    .root = root,
                    .count = tensor.numel()});
  const size_t total = tensor.nbytes();
  auto* bytes = static_cast<std::byte*>(tensor.data_ptr());
  for (size_t done = 0; done < total; done += board.chunk_bytes()) {
    const size_t count = std::min(board.chunk_bytes(), total - done);
    const uint64_t chunk = board.open_chunk();
    if (board.rank() == root) {
      std::memcpy(board.slot(root, chunk), bytes + done, count);
    }
    board.lay_out(chunk);
    if (board.rank() != root) {
      board.await(root, chunk);
      std::memcpy(bytes + done, board.slot(root, chunk), count);
    }
  }
  // Only the slot of the root was awaited. The next call checks the signatures of the others.
  board.check_later();
}

void all_gather(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input) {
  board.begin_call({.kind = Kind::AllGather, .type = input.scalar_type(), .count = input.numel()});
  const size_t total = input.nbytes();
  const auto* from = static_cast<const std::byte*>(input.data_ptr());
  auto* into = static_cast<std::byte*>(output.data_ptr());
  for (size_t done = 0; done < total; done += board.chunk_bytes()) {
    const size_t count = std::min(board.chunk_bytes(), total - done);
    const uint64_t chunk = board.open_chunk();
    std::memcpy(board.slot(board.rank(), chunk), from + done, count);
    board.lay_out(chunk);
    for (int peer = 0; peer < board.size(); ++peer) {
      board.await(peer, chunk);
      std::memcpy(into + static_cast<size_t>(peer) * total + done, board.slot(peer, chunk), count);
    }
  }
}

// In each chunk, a slot holds a piece of the part of every worker; worker r adds the pieces of part
// r.
void reduce_scatter(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input) {
  board.begin_call(
      {.kind = Kind::ReduceScatter, .type = input.scalar_type(), .count = input.numel()});
  const size_t width = input.element_size();
  const auto total = static_cast<size_t>(output.numel());
  const size_t most = board.chunk_bytes() / width / static_cast<size_t>(board.size());
  const auto* from = static_cast<const std::byte*>(input.data_ptr());
  auto* into = static_cast<std::byte*>(output.data_ptr());
  Sources sources(board);
  const auto piece_of = [&](int peer, size_t done) {
    return from + (static_cast<size_t>(peer) * total + done) * width;
  };
  for (size_t done = 0; done < total; done += most) {
    const size_t count = std::min(most, total - done);
    const uint64_t chunk = board.open_chunk();
    for (int peer = 0; peer < board.size(); ++peer) {
      if (peer != board.rank()) {
        std::memcpy(board.slot(board.rank(), chunk) + static_cast<size_t>(peer) * count * width,
                    piece_of(peer, done),
                    count * width);
      }
    }
    board.lay_out(chunk);
    const size_t mine = static_cast<size_t>(board.rank()) * count * width;
    for (int peer = 0; peer < board.size(); ++peer) {
      board.await(peer, chunk);
      sources[peer] =
          peer == board.rank() ? piece_of(board.rank(), done) : board.slot(peer, chunk) + mine;
    }
    reduce_all(into + done * width, sources.all(), count, input.scalar_type(), Reduction::Sum);
  }
}

}  // namespace lockstep::comm

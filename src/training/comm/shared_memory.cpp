// SPDX-License-Identifier: Apache-2.0
#include "training/comm/shared_memory.h"

#include <fmt/format.h>
#include <optional>
#include <random>

#include "common/base/check.h"
#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/shared_collectives.h"
#include "training/comm/shared_memory_slots.h"

namespace lockstep::comm {
namespace {

std::string new_name() {
  std::random_device chance;
  return fmt::format("/lockstep-{:08x}{:08x}", chance(), chance());
}

class SharedMemoryRank final : public Communicator {
 public:
  // All workers must have called announce_processors() before.
  SharedMemoryRank(int rank,
                   int size,
                   os::SharedMemory memory,
                   os::PeerWatch peers,
                   std::chrono::milliseconds timeout)
      : slots_(rank, size, std::move(memory), std::move(peers), timeout) {}

  int rank() const override { return slots_.rank(); }
  int size() const override { return slots_.size(); }
  std::string_view kind() const override { return "shared-memory"; }

 protected:
  void do_barrier() override {
    comm::barrier(slots_, barrier_signature(CommunicatorAccess::calls(*this)));
  }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    comm::all_reduce(slots_, tensor, reduction);
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    comm::broadcast(slots_, tensor, root);
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    comm::all_gather(slots_, output, input);
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    comm::reduce_scatter(slots_, output, input);
  }

  // Rank 0 creates the segment and all open it by name; the name is removed as soon as all have
  // opened it, so that a killed process leaves nothing in /dev/shm. Every rank of this group takes
  // part in all steps, also those outside the subset and those that failed: the calls must match.
  std::unique_ptr<Communicator> do_subset(int count) override {
    comm::barrier(slots_, {.kind = CallSignature::Kind::Subset, .count = count});
    const torch::Tensor pids = all_gather(torch::full({1}, os::process_id(), torch::kInt64));
    std::optional<os::SharedMemory> memory;
    std::string name;
    if (slots_.rank() == 0) {
      name = new_name();
      memory = os::SharedMemory::create(name, SharedMemorySlots::needed_bytes(count));
    }
    name = broadcast_bytes(name);
    if (slots_.rank() > 0 && slots_.rank() < count) {
      memory = os::SharedMemory::open(name, SharedMemorySlots::needed_bytes(count));
    }
    os::PeerWatch peers;
    bool is_well = slots_.rank() >= count || memory.has_value();
    for (int peer = 0; peer < count && slots_.rank() < count; ++peer) {
      is_well = is_well &&
                (peer == slots_.rank() || peers.add(static_cast<int>(pids[peer].item<int64_t>())));
    }
    if (memory) {
      SharedMemorySlots::announce_processors(*memory);
    }
    torch::Tensor all_well = torch::full({1}, is_well ? 1 : 0, torch::kInt64);
    all_reduce(all_well, Reduction::Min);
    if (slots_.rank() == 0) {
      os::SharedMemory::remove_name(name);
    }
    if (all_well.item<int64_t>() == 0) {
      throw Error(ExitCode::Unavailable, "cannot create a second shared-memory communicator")
          .fact("required", format_bytes(SharedMemorySlots::needed_bytes(count)), "/dev/shm")
          .hint("--transport gloo");
    }
    if (slots_.rank() >= count) {
      return nullptr;
    }
    return std::make_unique<SharedMemoryRank>(
        slots_.rank(), count, std::move(*memory), std::move(peers), slots_.timeout());
  }

 private:
  SharedMemorySlots slots_;
};

std::vector<uint8_t> to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string get_text(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

// A watch on all other workers; nullopt if one runs on another machine.
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

// Keys in the store, all written once:
//
//   shm/who/RANK   "PID MACHINE"    whether all are on one machine, and whom to watch
//   shm/name       name of the segment; empty: rank 0 could not create it
//   shm/ok/RANK    "yes" or "no"    whether this rank can join
//
// get() of the store blocks until the key exists. The last key is also the barrier after which the
// name of the segment can be removed.
std::unique_ptr<Communicator> join_shared_memory(c10d::Store& store,
                                                 int rank,
                                                 int size,
                                                 std::chrono::milliseconds timeout) {
  if (size > SharedMemorySlots::kMaxWorkers) {
    return nullptr;
  }
  std::optional<os::PeerWatch> peers = find_peers(store, rank, size);
  std::optional<os::SharedMemory> memory;
  std::string name;
  if (rank == 0) {
    name = new_name();
    memory = os::SharedMemory::create(name, SharedMemorySlots::needed_bytes(size));
    store.set("shm/name", to_bytes(memory ? name : ""));
  } else {
    name = get_text(store, "shm/name");
    if (!name.empty()) {
      memory = os::SharedMemory::open(name, SharedMemorySlots::needed_bytes(size));
    }
  }
  if (memory) {
    SharedMemorySlots::announce_processors(*memory);
  }
  // Either all workers join or none: a worker that cannot join makes all others return null too.
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

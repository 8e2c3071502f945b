// SPDX-License-Identifier: Apache-2.0
#include "training/comm/process_group.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#if LOCKSTEP_HAVE_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

#include "common/base/text.h"
#include "common/os/network.h"
#include "lockstep/error.h"
#include "training/comm/c10d_adapter.h"
#include "training/comm/chunked_reduction.h"
#include "training/comm/crash_note.h"
#include "training/comm/lost_peer.h"

namespace lockstep::comm {

bool has_gloo() {
  return LOCKSTEP_HAVE_GLOO != 0;
}

compat::ProcessGroupPtr process_group_over(Communicator& communicator) {
  return make_process_group(communicator,
                            communicator.overlaps() ? Overlap::OwnThread : Overlap::None);
}

#if LOCKSTEP_HAVE_GLOO
namespace {

c10d::ReduceOp to_reduce_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::Max:
      return c10d::ReduceOp::MAX;
    case Reduction::Min:
      return c10d::ReduceOp::MIN;
    case Reduction::Sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

// A Communicator over a c10d process group.
class ProcessGroupRank final : public Communicator {
 public:
  ProcessGroupRank(compat::ProcessGroupPtr group,
                   compat::StorePtr store,
                   contract::WorkerSpec spec,
                   std::chrono::milliseconds timeout)
      : group_(std::move(group)),
        store_(std::move(store)),
        spec_(std::move(spec)),
        timeout_(timeout),
        rank_(spec_.rank),
        size_(spec_.world_size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "gloo"; }
  bool overlaps() const override { return true; }

 protected:
  // Gloo detects a message that is too long, but not one that is too short or that belongs to
  // another call.
  bool notices_different_calls() const override { return false; }

  // The barrier of Gloo may rethrow the error of an earlier call; an all-reduce of one number does
  // not.
  void do_barrier() override {
    torch::Tensor one = torch::ones({1}, torch::kInt64);
    do_all_reduce(one, Reduction::Sum);
  }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    if (is_half(tensor.scalar_type())) {
      chunked_all_reduce(tensor, reduction, size_, chunk_exchange());
      return;
    }
    finish("all-reduce", [&] {
      std::vector<torch::Tensor> tensors{tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = to_reduce_op(reduction);
      return group_->allreduce(tensors, options);
    });
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    finish("broadcast", [&] {
      std::vector<torch::Tensor> tensors{tensor};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      return group_->broadcast(tensors, options);
    });
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    finish("all-gather", [&] {
      std::vector<std::vector<torch::Tensor>> outputs{output.chunk(size_)};
      std::vector<torch::Tensor> inputs{input};
      return group_->allgather(outputs, inputs);
    });
  }

  // Gloo has no reduce-scatter before libtorch 2.6.
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    chunked_reduce_scatter(output, input, size_, chunk_exchange());
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    // Counted on all ranks, also on those outside the subset, so that the prefixes stay equal.
    const std::string prefix = fmt::format("subset{}", subsets_++);
    if (rank_ >= count) {
      return nullptr;
    }
    contract::WorkerSpec spec = spec_;
    spec.world_size = count;
    return join_gloo(c10::make_intrusive<c10d::PrefixStore>(prefix, store_), spec, timeout_);
  }

 private:
  ChunkExchange chunk_exchange() {
    return {.all_to_all =
                [this](torch::Tensor& output, torch::Tensor& input) {
                  finish("all-to-all", [&] {
                    std::vector<int64_t> even;
                    return group_->alltoall_base(output, input, even, even);
                  });
                },
            .all_gather =
                [this](torch::Tensor& output, const torch::Tensor& input) {
                  do_all_gather(output, input);
                }};
  }

  template <typename Start>
  void finish(std::string_view call, const Start& start) {
    try {
      start()->wait();
    } catch (const std::exception& fault) {
      if (const auto error = find_different_calls(fault)) {
        throw Error(*error);
      }
      throw_if_lost_peer(call, fault);
      throw;
    }
  }

  compat::ProcessGroupPtr group_;
  compat::StorePtr store_;  // for the rendezvous of subsets
  contract::WorkerSpec spec_;
  std::chrono::milliseconds timeout_;
  int rank_;
  int size_;
  int subsets_ = 0;
};

// Gloo by itself uses the address that the host name resolves to, which is often a loopback or a
// management network. The address towards rank 0 is on a network that reaches it.
std::shared_ptr<::gloo::transport::Device> make_device(const contract::WorkerSpec& spec) {
  if (!spec.interface.empty()) {
    const std::vector<std::string> names = os::interface_names();
    if (std::find(names.begin(), names.end(), spec.interface) == names.end()) {
      throw Error(ExitCode::Usage,
                  fmt::format("network interface '{}' does not exist", spec.interface))
          .fact("requested", spec.interface, "LOCKSTEP_INTERFACE or GLOO_SOCKET_IFNAME")
          .fact("available", join(names, ", "), fmt::format("this node, rank {}", spec.rank))
          .hint("set the variable to one of these, or unset it");
    }
    return c10d::ProcessGroupGloo::createDeviceForInterface(spec.interface);
  }
  const std::string peer = spec.nodes == 1 ? "127.0.0.1" : spec.master_addr;
  const auto address = os::find_local_address_towards(peer);
  if (!address) {
    throw Error(ExitCode::Unavailable, fmt::format("no route to {}", peer))
        .fact("rank 0 is at", spec.master_addr, "MASTER_ADDR")
        .hint("set LOCKSTEP_INTERFACE to the interface that reaches the other nodes");
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(*address);
}

}  // namespace

std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& store,
                                        const contract::WorkerSpec& spec,
                                        std::chrono::milliseconds timeout) {
  install_crash_note();
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(make_device(spec));
  try {
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store), spec.rank, spec.world_size, options);
    return std::make_unique<ProcessGroupRank>(
        compat::to_process_group(store, spec.rank, spec.world_size, std::move(gloo)),
        store,
        spec,
        timeout);
  } catch (const std::exception& fault) {
    throw_if_lost_peer("connecting the workers", fault);
    throw;
  }
}

#else

std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& /*store*/,
                                        const contract::WorkerSpec& /*spec*/,
                                        std::chrono::milliseconds /*timeout*/) {
  throw Error(ExitCode::Usage, "cannot use Gloo: this build of lockstep does not support it")
      .hint("install libgloo-dev and build again, or start the program with mpirun");
}

#endif

}  // namespace lockstep::comm

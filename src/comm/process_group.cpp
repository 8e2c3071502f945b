// SPDX-License-Identifier: Apache-2.0
#include "comm/process_group.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#if LOCKSTEP_HAVE_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

#include "base/text.h"
#include "comm/communicator_group.h"
#include "comm/lost_peer.h"
#include "lockstep/error.h"
#include "os/network.h"

namespace lockstep::comm {

bool has_gloo() {
  return LOCKSTEP_HAVE_GLOO != 0;
}

compat::ProcessGroupPtr process_group_over(Communicator& communicator) {
  if (const auto* lender = dynamic_cast<const LendsProcessGroup*>(&communicator)) {
    return lender->process_group();
  }
  return make_process_group(communicator, Overlap::None);
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

// A gang over a process group of libtorch.
class ProcessGroupRank final : public Communicator, public LendsProcessGroup {
 public:
  ProcessGroupRank(compat::ProcessGroupPtr group, int rank, int size)
      : group_(std::move(group)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "gloo"; }
  compat::ProcessGroupPtr process_group() const override { return group_; }

  // Gloo's own barrier may rethrow the error of an earlier call; a sum of one number does not.
  void barrier() override {
    torch::Tensor one = torch::ones({1}, torch::kInt64);
    do_all_reduce(one, Reduction::Sum);
  }

 protected:
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
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

  // Gloo has no reduce-scatter before 2.6: an all-to-all and a sum in the order of ranks moves the
  // same bytes as a ring, and is repeatable.
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    torch::Tensor pieces = torch::empty_like(input);
    finish("reduce-scatter", [&] {
      std::vector<int64_t> even;
      torch::Tensor from = input;
      return group_->alltoall_base(pieces, from, even, even);
    });
    const auto parts = pieces.view({size_, -1});
    output.copy_(parts[0]);
    for (int peer = 1; peer < size_; ++peer) {
      output.add_(parts[peer]);
    }
  }

 private:
  template <typename Start>
  void finish(std::string_view call, const Start& start) {
    try {
      start()->wait();
    } catch (const std::exception& fault) {
      throw_if_lost_peer(call, fault);
      throw;
    }
  }

  compat::ProcessGroupPtr group_;
  int rank_;
  int size_;
};

std::shared_ptr<::gloo::transport::Device> make_device(const contract::WorkerPlace& place) {
  if (!place.interface.empty()) {
    const std::vector<std::string> names = os::interface_names();
    if (std::find(names.begin(), names.end(), place.interface) == names.end()) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot use the network interface '{}'", place.interface))
          .fact("asked", place.interface, "LOCKSTEP_INTERFACE or GLOO_SOCKET_IFNAME")
          .fact("there are", join(names, ", "), fmt::format("this node, rank {}", place.rank))
          .hint("name one of these, or unset the variable");
    }
    return c10d::ProcessGroupGloo::createDeviceForInterface(place.interface);
  }
  const std::string peer = place.nodes == 1 ? "127.0.0.1" : place.master_addr;
  const auto address = os::find_local_address_towards(peer);
  if (!address) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot find a route to {}", peer))
        .fact("rank 0 is at", place.master_addr, "MASTER_ADDR")
        .hint("set LOCKSTEP_INTERFACE to the interface that reaches the other nodes");
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(*address);
}

}  // namespace

std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& store,
                                        const contract::WorkerPlace& place,
                                        std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(make_device(place));
  try {
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store),
        place.rank,
        place.world_size,
        options);
    return std::make_unique<ProcessGroupRank>(
        compat::to_process_group(store, place.rank, place.world_size, std::move(gloo)),
        place.rank,
        place.world_size);
  } catch (const std::exception& fault) {
    throw_if_lost_peer("connecting the gang", fault);
    throw;
  }
}

#else

std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& /*store*/,
                                        const contract::WorkerPlace& /*place*/,
                                        std::chrono::milliseconds /*timeout*/) {
  throw Error(ExitCode::Usage, "cannot use gloo: this build of lockstep has none")
      .hint("install libgloo-dev and build again, or start the program with mpirun");
}

#endif

}  // namespace lockstep::comm

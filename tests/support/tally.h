// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep {

// Forwards all calls to another Communicator and counts them. `overlaps` is the value of
// overlaps(), with which a test can force or prevent the use of a background thread.
class Tally final : public Communicator {
 public:
  explicit Tally(Communicator& comm, bool overlaps = false) : comm_(comm), overlaps_(overlaps) {}

  // Payload of all-reduces since the last call. The number of bytes on the network depends on the
  // transport.
  int64_t take_bytes() { return bytes_.exchange(0); }
  int64_t take_calls() { return calls_.exchange(0); }
  int64_t take_scatters() { return scatters_.exchange(0); }

  // Number of elements of each all-reduce since the last call, in order.
  std::vector<int64_t> take_sizes() { return std::exchange(sizes_, {}); }

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string_view kind() const override { return comm_.kind(); }
  bool overlaps() const override { return overlaps_; }

 protected:
  void do_barrier() override { comm_.barrier(); }
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    bytes_ += static_cast<int64_t>(tensor.nbytes());
    ++calls_;
    sizes_.push_back(tensor.numel());
    comm_.all_reduce(tensor, reduction);
  }
  void do_broadcast(torch::Tensor& tensor, int root) override { comm_.broadcast(tensor, root); }
  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    output.copy_(comm_.all_gather(input).view({-1}));
  }
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    ++scatters_;
    output.copy_(comm_.reduce_scatter(input.view({size(), -1})).view({-1}));
  }
  std::unique_ptr<Communicator> do_subset(int count) override { return comm_.subset(count); }

 private:
  Communicator& comm_;
  bool overlaps_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> scatters_ = 0;
  std::vector<int64_t> sizes_;
};

}  // namespace lockstep

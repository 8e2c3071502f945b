// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/communicator.h"

namespace lockstep::comm {

// A process group of one worker: every collective is the identity.
class Solo final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view kind() const override { return "solo"; }
  bool accepts(torch::Device /*where*/) const override { return true; }  // nothing is sent
  void do_barrier() override {}

 protected:
  void do_all_reduce(torch::Tensor& /*tensor*/, Reduction /*reduction*/) override {}
  void do_broadcast(torch::Tensor& /*tensor*/, int /*root*/) override {}
  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    output.copy_(input);
  }
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    output.copy_(input);
  }
  std::unique_ptr<Communicator> do_subset(int /*count*/) override {
    return std::make_unique<Solo>();
  }
};

}  // namespace lockstep::comm

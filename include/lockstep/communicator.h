// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

namespace lockstep {

enum class Reduction { Sum, Max, Min };

// What the workers of a gang say to each other: collectives over one transport.
//
// Every worker makes the same calls in the same order, with tensors of the same shape and type. A
// call returns when this worker's result is there. Results are bit-identical on all workers. A lost
// peer is an Error with ExitCode::TryAgain that names the call. One thread at a time may call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The transport: "solo", "threads", "shared-memory", "gloo" or "mpi".
  virtual std::string_view kind() const = 0;

  // Replaces `tensor` by the reduction over the gang.
  void all_reduce(torch::Tensor& tensor, Reduction reduction = Reduction::Sum);

  // Replaces `tensor` by that of worker `root`.
  void broadcast(torch::Tensor& tensor, int root = 0);

  // Broadcasts many tensors of any types in few messages.
  void broadcast(std::vector<torch::Tensor> tensors, int root = 0);

  // Every worker's tensor, stacked along a new first dimension in the order of ranks.
  torch::Tensor all_gather(const torch::Tensor& tensor);

  // `tensor` has size() slices along its first dimension; returns the sum over the gang of slice
  // rank().
  torch::Tensor reduce_scatter(const torch::Tensor& tensor);

  // Returns when all workers have called it.
  virtual void barrier() = 0;

  // The bytes of worker `root`, whatever the others pass.
  std::string broadcast_bytes(std::string bytes, int root = 0);

  // The value of worker `root`: numbers, strings, lists, dictionaries, tensors.
  torch::IValue broadcast_object(const torch::IValue& value, int root = 0);

  // Every worker's bytes, in the order of ranks.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

 protected:
  // The transport's part. Tensors are contiguous, dense, on the CPU; all_reduce and reduce_scatter
  // see float, double, int32, int64 or uint8 only. `output` is flat.
  virtual void do_all_reduce(torch::Tensor& tensor, Reduction reduction) = 0;
  virtual void do_broadcast(torch::Tensor& tensor, int root) = 0;
  virtual void do_all_gather(torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) = 0;
};

}  // namespace lockstep

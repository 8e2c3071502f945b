// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "training/strategy/zero/layout.h"

namespace lockstep::strategy::zero {

// The part of one parameter that the optimizer of this worker updates.
struct Piece {
  size_t member = 0;    // index in its flat parameter
  int64_t offset = 0;   // first element, in the flattened parameter
  torch::Tensor value;  // flat; float32 or wider
};

// Parameters that are stored end to end in one tensor (FlatParameter in PyTorch's FSDP), their
// gradients, and the shard of this worker.
//
// Layout, for W workers. The parameters are stored end to end and padded to W equal shards; a shard
// boundary can be anywhere within a parameter:
//
//   flat_     | parameter 0 | parameter 1      | parameter 2 | padding |
//   shards    | rank 0         | rank 1         | rank 2         | ... |
//
//   tensor    elements       type       exists                    content
//   flat_     all            parameter  always; has memory only   what the model computes with
//                                       while it is whole
//   master_   stage 0: all   float32    if it is trained          what the optimizer updates
//             else: shard    or wider
//   shard_    shard          parameter  if it does not stay       what gather() sends
//                                       whole
//   bucket_   all            bucket     during backward           gradients before reduce()
//   gradient_ as master_     master     after reduce()            sum over all workers
//
// Two tensors can share memory. master_ is a view of flat_ if the flat parameter stays whole and
// its type is float32 or wider. shard_ is master_ itself if the types are equal and the optimizer
// is not offloaded. publish() and leave() depend on this.
//
// Every parameter is a view of flat_ from the constructor on. release() frees the memory of flat_
// but keeps its StorageImpl, so views that autograd has saved are valid again after the next
// gather.
class FlatParameter {
 public:
  // Uses the current values of the parameters, which must be equal on all workers.
  FlatParameter(FlatParameterPlan plan, const ZeroOptions& options, int rank, int workers);

  const FlatParameterPlan& plan() const { return plan_; }
  int64_t padded() const { return flat_elements_; }

  // ---- parameters ----

  bool is_whole() const { return is_whole_; }
  // Identifies tensors of this flat parameter. Does not change over its lifetime.
  const void* storage() const { return flat_.storage().unsafeGetStorageImpl(); }
  // Allocates the memory of flat_. The values are undefined until gather() is complete.
  void allocate();
  // Gathers the shards of all workers into flat_.
  void gather(Communicator& channel);
  void release();

  // Must be called after the optimizer has changed pieces(). Distributes the new values.
  void publish(Communicator& channel);

  // Makes the parameters independent tensors of their original type again, whole on every worker.
  void leave(Communicator& channel);

  // ---- gradients ----

  // Must be called at the beginning of a backward pass.
  void begin_pass();
  // Moves the gradient of a parameter into the bucket. The previous reduce() must be complete.
  void take_gradient(size_t member);
  // Whether every parameter has got its gradient in this pass.
  bool has_all_gradients() const { return arrived_ == static_cast<int64_t>(plan_.members.size()); }
  bool has_gradients() const { return taken_ > 0; }
  // Adds the sum of the buckets of all workers to the gradient of this worker.
  void reduce(Communicator& channel);

  // The shard of the gradient, with padding (stage 0: the whole gradient); undefined before the
  // first reduce().
  const torch::Tensor& gradient() const { return gradient_; }
  void drop_gradient() { gradient_ = torch::Tensor(); }

  // The tensors that the optimizer updates: views of master_.
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The gradient of a piece, a view of gradient().
  torch::Tensor gradient_of(const Piece& piece) const;

  // The pieces that this worker saves in a checkpoint: its shard of the flat parameter, even if it
  // holds more.
  std::vector<Piece> owned() const;

 private:
  torch::Tensor view_of(const Member& member, const torch::Tensor& flat) const;
  void lay_out(torch::ScalarType type);
  std::vector<Piece> cut(Span span, const torch::Tensor& values, int64_t first) const;

  FlatParameterPlan plan_;
  ZeroOptions options_;
  int rank_;
  int workers_;
  int64_t flat_elements_;

  torch::Tensor flat_;    // parameters, with padding
  torch::Tensor master_;  // values of the optimizer, with padding
  torch::Tensor shard_;   // own shard as it is sent, if the flat parameter does not stay whole
  bool is_whole_ = true;
  std::vector<Piece> pieces_;

  torch::ScalarType given_type_;  // original type of the parameters
  torch::ScalarType bucket_type_;
  torch::Tensor bucket_;           // gradients for the next reduce()
  std::vector<bool> has_arrived_;  // by member, in this pass
  int64_t arrived_ = 0;
  std::vector<bool> is_taken_;  // by member: its gradient is in the bucket
  int64_t taken_ = 0;
  torch::Tensor gradient_;
};

}  // namespace lockstep::strategy::zero

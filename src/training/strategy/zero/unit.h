// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "training/strategy/zero/layout.h"

namespace lockstep::strategy::zero {

// The part of one parameter that the optimizer of this worker updates.
struct Piece {
  size_t member = 0;    // index in its unit
  int64_t offset = 0;   // first element, in the flattened parameter
  torch::Tensor value;  // flat; float32 or wider
};

// The parameters of one unit, their gradients, and the shard of this worker.
//
// Layout, for W workers. The parameters are stored end to end and padded to W equal shards; a shard
// boundary can be anywhere within a parameter:
//
//   flat_     | parameter 0 | parameter 1      | parameter 2 | padding |
//   shards    | rank 0         | rank 1         | rank 2         | ... |
//
//   tensor    elements       type       exists                    content
//   flat_     all            parameter  always; has memory only   what the model computes with
//                                       while the unit is whole
//   master_   stage 0: all   float32    if the unit is trained    what the optimizer updates
//             else: shard    or wider
//   share_    shard          parameter  if the unit does not      what gather sends
//                                       stay whole
//   packet_   all            packet     during backward           gradients before reduce()
//   gradient_ as master_     master     after reduce()            sum over all workers
//
// Two tensors can share memory. master_ is a view of flat_ if the unit stays whole and its type is
// float32 or wider. share_ is master_ itself if the types are equal and the optimizer is not
// offloaded. publish() and leave() depend on this.
//
// Every parameter is a view of flat_ from the constructor on. release() frees the memory of flat_
// but keeps its StorageImpl, so views that autograd has saved are valid again after the next
// gather.
class Unit {
 public:
  // Uses the current values of the parameters, which must be equal on all workers.
  Unit(UnitPlan plan, const ZeroOptions& options, int rank, int workers);

  const UnitPlan& plan() const { return plan_; }
  int64_t padded() const { return flat_elements_; }

  // ---- parameters ----

  bool is_whole() const { return is_whole_; }
  // Identifies tensors of this unit. Does not change over its lifetime.
  const void* storage() const { return flat_.storage().unsafeGetStorageImpl(); }
  // Allocates the memory of flat_. The values are undefined until fill() is complete.
  void take_memory();
  // Gathers the shards of all workers into flat_.
  void fill(Communicator& channel);
  void release();

  // Must be called after the optimizer has changed pieces(). Distributes the new values.
  void publish(Communicator& channel);

  // Makes the parameters independent tensors of their original type again, whole on every worker.
  void leave(Communicator& channel);

  // ---- gradients ----

  // Must be called at the beginning of a backward pass.
  void begin_pass();
  // Moves the gradient of a parameter into the packet. The previous reduce() must be complete.
  void take_gradient(size_t member);
  // Whether every parameter has got its gradient in this pass.
  bool has_all_gradients() const { return arrived_ == static_cast<int64_t>(plan_.members.size()); }
  bool has_gradients() const { return taken_ > 0; }
  // Adds the sum of the packets of all workers to the gradient of this worker.
  void reduce(Communicator& channel);

  // The shard of the gradient, with padding (stage 0: the whole gradient); undefined before the
  // first reduce().
  const torch::Tensor& gradient() const { return gradient_; }
  void drop_gradient() { gradient_ = torch::Tensor(); }

  // The tensors that the optimizer updates: views of master_.
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The gradient of a piece, a view of gradient().
  torch::Tensor gradient_of(const Piece& piece) const;

  // The pieces that this worker saves in a checkpoint: its shard of the unit, even if it holds
  // more.
  std::vector<Piece> owned() const;

  // Current memory of this worker.
  int64_t parameter_bytes() const;
  int64_t master_bytes() const;
  int64_t gradient_bytes() const;

 private:
  torch::Tensor view_of(const Member& member, const torch::Tensor& flat) const;
  void lay_out(torch::ScalarType type);
  std::vector<Piece> cut(Span span, const torch::Tensor& values, int64_t first) const;

  UnitPlan plan_;
  ZeroOptions options_;
  int rank_;
  int workers_;
  int64_t flat_elements_;

  torch::Tensor flat_;    // parameters, with padding
  torch::Tensor master_;  // values of the optimizer, with padding
  torch::Tensor share_;   // own shard as it is sent, if the unit does not stay whole
  bool is_whole_ = true;
  std::vector<Piece> pieces_;

  torch::ScalarType given_type_;  // original type of the parameters
  torch::ScalarType packet_type_;
  torch::Tensor packet_;           // gradients for the next reduce()
  std::vector<bool> has_arrived_;  // by member, in this pass
  int64_t arrived_ = 0;
  std::vector<bool> is_taken_;  // by member: its gradient is in the packet
  int64_t taken_ = 0;
  torch::Tensor gradient_;
};

}  // namespace lockstep::strategy::zero

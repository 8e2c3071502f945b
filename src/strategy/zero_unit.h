// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>
#include <vector>

#include "lockstep/communicator.h"
#include "strategy/zero_layout.h"

namespace lockstep::strategy::zero {

// What this worker holds of one parameter, as the optimizer sees it.
struct Piece {
  size_t member = 0;    // of its unit
  int64_t offset = 0;   // in the flattened parameter
  torch::Tensor value;  // flat; float32 or wider
};

// The parameters of one unit, their gradients, and this worker's share of both.
//
// Every parameter is a view of one flat tensor, from the constructor on. Where the unit does not
// stay whole, that tensor has memory only between gather() and release(); views of it that autograd
// has saved are valid again after the next gather().
class Unit {
 public:
  // Takes the values as they are: all workers hold the same.
  Unit(UnitPlan plan, const ZeroOptions& options, int rank, int workers);

  const UnitPlan& plan() const { return plan_; }
  int64_t padded() const { return flat_elements_; }

  // ---- parameters ----

  bool is_whole() const { return is_whole_; }
  // What tells a tensor of this unit from others.
  const void* storage() const { return flat_.storage().unsafeGetStorageImpl(); }
  // Gets memory for the whole, which has undefined values until fill() is done.
  void take_memory();
  // The workers' shares into the whole.
  void fill(Communicator& channel);
  void release();

  // After the optimizer has changed pieces().
  void publish(Communicator& channel);

  // Makes the parameters plain tensors of their first type again, whole on every worker.
  void leave(Communicator& channel);

  // ---- gradients ----

  // A backward begins.
  void begin_pass();
  // Moves the parameter's gradient into the packet that is being filled.
  void take_gradient(size_t member);
  // Whether every parameter's has come in this pass.
  bool has_all_gradients() const { return arrived_ == static_cast<int64_t>(plan_.members.size()); }
  bool has_gradients() const { return taken_ > 0; }
  // Adds the sum over the gang of the packet to this worker's share of the gradient.
  void reduce(Communicator& channel);

  // This worker's share of the gradient, with padding; undefined if there is none yet.
  const torch::Tensor& gradient() const { return gradient_; }
  void drop_gradient() { gradient_ = torch::Tensor(); }

  // What the optimizer updates: views of one flat tensor.
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The gradient of a piece: a view of gradient().
  torch::Tensor gradient_of(const Piece& piece) const;

  // What this worker answers for in a checkpoint: its share of the unit's values, also where it
  // holds more.
  std::vector<Piece> owned() const;

  // Bytes that this worker has at the moment.
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
  torch::Tensor master_;  // this worker's share as the optimizer has it, with padding
  torch::Tensor share_;   // the same as it travels, where the unit does not stay whole
  bool is_whole_ = true;
  std::vector<Piece> pieces_;

  torch::ScalarType given_type_;  // of the parameters, as they came
  torch::ScalarType packet_type_;
  torch::Tensor packet_;           // gradients on their way to reduce()
  std::vector<bool> has_arrived_;  // by member, in this pass
  int64_t arrived_ = 0;
  std::vector<bool> is_taken_;  // by member: is in the packet
  int64_t taken_ = 0;
  torch::Tensor gradient_;
};

}  // namespace lockstep::strategy::zero

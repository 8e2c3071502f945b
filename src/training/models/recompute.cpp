// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recompute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <mutex>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "lockstep/error.h"
#include "training/models/autocast.h"

namespace lockstep {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Activation checkpointing (Chen et al. 2016): forward keeps only the input of a block, backward
// computes the block again. The second computation must equal the first: it starts with the same
// random state (dropout) and the same autocast, and leaves random state and buffers (running
// averages of batch norm) as it found them.

// States of the random generators that a block can use.
class RandomState {
 public:
  explicit RandomState(torch::Device device) {
    add(torch::kCPU);
    if (device.is_cuda()) {
      add(device);
    }
  }

  void set() const {
    for (const auto& [device, state] : states_) {
      at::Generator generator = at::globalContext().defaultGenerator(device);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

  bool operator==(const RandomState& other) const {
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].second.equal(other.states_[i].second)) {
        return false;
      }
    }
    return true;
  }

 private:
  void add(torch::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(device, generator.get_state());
  }

  std::vector<std::pair<torch::Device, Tensor>> states_;
};

// State of the first computation that the second one needs. Stored in an autograd context.
struct Record : torch::CustomClassHolder {
  Record(RecomputedBlock what, const Tensor& input)
      : block(std::move(what)),
        before(input.device()),
        after(before),
        autocast(models::autocast_type(input.device().type())),
        input_wants_gradient(input.requires_grad()) {}

  RecomputedBlock block;
  RandomState before;
  RandomState after;
  std::optional<torch::ScalarType> autocast;
  bool input_wants_gradient;
};

// Restores the current random state and buffers in its destructor.
class Restore {
 public:
  Restore(torch::Device device, const std::vector<Tensor>& buffers)
      : random_(device), buffers_(buffers) {
    for (const Tensor& buffer : buffers_) {
      copies_.push_back(buffer.detach().clone());
    }
  }
  ~Restore() {
    torch::NoGradGuard no_grad;
    random_.set();
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i].copy_(copies_[i]);
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  RandomState random_;
  std::vector<Tensor> buffers_;
  std::vector<Tensor> copies_;
};

Tensor compute_again(const Record& record, const Tensor& input) {
  torch::AutoGradMode with_gradients(true);
  const models::AutocastScope autocast(input.device().type(), record.autocast);
  record.before.set();
  Tensor output = record.block.forward(input);
  // A block without dropout leaves the generators as they were. Any other state means that a thread
  // of another worker in this process has used them in between.
  const RandomState after(input.device());
  if (!(after == record.after) && !(after == record.before)) {
    throw Error(ExitCode::Usage,
                "cannot recompute a block: another thread drew random numbers while it ran")
        .hint("train without --recompute, without dropout, or with one worker per process");
  }
  return output;
}

struct Recomputed : torch::autograd::Function<Recomputed> {
  // Parameters are inputs of this node, so that their gradients are results of its backward. The
  // hooks of a strategy then see each gradient once.
  static Tensor forward(AutogradContext* context,
                        const Tensor& input,
                        const at::TensorList& /*parameters*/,
                        const c10::intrusive_ptr<Record>& record) {
    Tensor output = record->block.forward(input);
    record->after = RandomState(input.device());
    if (record->autocast) {
      // The weights that autocast cached here do not require gradients and must not be reused
      // later.
      at::autocast::clear_cache();
    }
    context->save_for_backward({input});
    context->saved_data["record"] = c10::IValue::make_capsule(record);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto record =
        c10::static_intrusive_pointer_cast<Record>(context->saved_data["record"].toCapsule());
    const Tensor saved = context->get_saved_variables()[0];
    const Tensor input = saved.detach().set_requires_grad(record->input_wants_gradient);
    // The destructor restores the state even after an exception. It must run after the gradients
    // are computed, because the graph of batch norm refers to the buffers.
    const Restore restore(input.device(), record->block.buffers);
    const Tensor output = compute_again(*record, input);

    variable_list wanted = record->block.parameters;
    if (record->input_wants_gradient) {
      wanted.insert(wanted.begin(), input);
    }
    variable_list found(wanted.size());
    if (output.requires_grad() && !wanted.empty()) {
      found = torch::autograd::grad({output},
                                    wanted,
                                    {gradients[0]},
                                    /*retain_graph=*/false,
                                    /*create_graph=*/false,
                                    /*allow_unused=*/true);
    }
    if (!record->input_wants_gradient) {
      found.insert(found.begin(), Tensor());
    }
    found.emplace_back();  // no gradient for the record
    return found;
  }
};

}  // namespace

torch::Tensor recompute(const RecomputedBlock& block, const torch::Tensor& input) {
  RecomputedBlock trained = block;
  std::erase_if(trained.parameters, [](const Tensor& each) { return !each.requires_grad(); });
  if (!torch::GradMode::is_enabled() || (trained.parameters.empty() && !input.requires_grad())) {
    return block.forward(input);
  }
  const variable_list parameters = trained.parameters;
  return Recomputed::apply(
      input, at::TensorList(parameters), c10::make_intrusive<Record>(std::move(trained), input));
}

}  // namespace lockstep

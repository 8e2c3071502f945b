// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/optimizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unordered_map>

#include "lockstep/error.h"
#include "lockstep/lamb.h"
#include "lockstep/muon.h"
#include "training/optim/adagrad.h"

namespace lockstep::strategy::zero {
namespace {

// Adagrad of libtorch creates the state of all parameters in its constructor.
bool is_fresh_adagrad(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<torch::optim::Adagrad*>(&optimizer) == nullptr) {
    return false;
  }
  return std::all_of(optimizer.state().begin(), optimizer.state().end(), [](const auto& each) {
    return dynamic_cast<const torch::optim::AdagradParamState&>(*each.second).step() == 0;
  });
}

}  // namespace

void require_fresh(torch::optim::Optimizer& optimizer) {
  if (!optimizer.state().empty() && !is_fresh_adagrad(optimizer)) {
    throw Error(ExitCode::Usage, "cannot partition an optimizer that has already made a step")
        .fact("parameters with state", std::to_string(optimizer.state().size()))
        .hint("call adopt() before the first step, and restore the state from a checkpoint");
  }
}

void require_divisible(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<Muon*>(&optimizer) != nullptr) {
    throw Error(ExitCode::Usage, "cannot use muon with -s deepspeed")
        .fact("reason", "muon updates complete matrices, ZeRO partitions flat parameters")
        .hint("-s ddp, or --optimizer adamw");
  }
}

PieceOptimizer::PieceOptimizer(torch::optim::Optimizer& optimizer,
                               const std::deque<FlatParameter>& flat_parameters,
                               int stage,
                               Communicator& channel)
    : optimizer_(optimizer), flat_parameters_(flat_parameters), channel_(channel) {
  hand_over();
  lockstep::optim::begin_adagrad(optimizer_);
  if (auto* lamb = dynamic_cast<Lamb*>(&optimizer_); lamb != nullptr && stage > 0) {
    lamb->add_up_with([this](const std::vector<torch::Tensor>& pieces, const torch::Tensor& rows) {
      return add_up_by_parameter(pieces, rows);
    });
  }
}

void PieceOptimizer::leave() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    optimizer_.param_groups()[i].params() = groups_[i];
  }
  // The keys of its state are pieces that no longer exist.
  optimizer_.state().clear();
  lockstep::optim::begin_adagrad(optimizer_);
  if (auto* lamb = dynamic_cast<Lamb*>(&optimizer_)) {
    lamb->add_up_with({});
  }
}

void PieceOptimizer::hand_over() {
  std::unordered_map<const void*, std::vector<torch::Tensor>> pieces;
  for (const FlatParameter& flat : flat_parameters_) {
    // An entry for every parameter, also without pieces: the shard of this worker need not contain
    // it, and it must not be taken for a parameter outside of the model.
    for (const Member& member : flat.plan().members) {
      pieces[member.parameter.unsafeGetTensorImpl()];
    }
    for (const Piece& piece : flat.pieces()) {
      pieces[flat.plan().members[piece.member].parameter.unsafeGetTensorImpl()].push_back(
          piece.value);
    }
  }
  for (auto& group : optimizer_.param_groups()) {
    groups_.push_back(group.params());
    std::vector<torch::Tensor> now;
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = pieces.find(parameter.unsafeGetTensorImpl());
      if (found == pieces.end() && parameter.requires_grad()) {
        throw Error(ExitCode::Usage, "the optimizer has a parameter that is not in the model")
            .fact("shape", fmt::format("{}", fmt::join(parameter.sizes(), " x ")))
            .hint("create the optimizer from model.parameters()");
      }
      if (found != pieces.end()) {
        now.insert(now.end(), found->second.begin(), found->second.end());
      }
    }
    group.params() = std::move(now);
  }
}

// `rows` has one row per piece of this worker. Returns for each piece the sum over all pieces of
// its parameter, on all workers. LAMB needs norms of whole parameters.
torch::Tensor PieceOptimizer::add_up_by_parameter(const std::vector<torch::Tensor>& pieces,
                                                  const torch::Tensor& rows) {
  std::unordered_map<const void*, int64_t> parameters;  // number of the parameter of each piece
  int64_t first = 0;
  for (const FlatParameter& flat : flat_parameters_) {
    for (const Piece& piece : flat.pieces()) {
      parameters[piece.value.unsafeGetTensorImpl()] = first + static_cast<int64_t>(piece.member);
    }
    // Numbers are positions in the plan, which is equal on all workers, so that the rows of the sum
    // match. Frozen flat parameters have no pieces and need no numbers.
    first += flat.plan().trained ? static_cast<int64_t>(flat.plan().members.size()) : 0;
  }
  std::vector<int64_t> numbers;
  numbers.reserve(pieces.size());
  for (const torch::Tensor& piece : pieces) {
    numbers.push_back(parameters.at(piece.unsafeGetTensorImpl()));
  }
  const torch::Tensor index = torch::tensor(numbers, torch::kInt64);
  torch::Tensor sums = torch::zeros({first, rows.size(1)}, rows.options());
  sums.index_add_(0, index, rows);
  channel_.all_reduce(sums);
  return sums.index_select(0, index);
}

}  // namespace lockstep::strategy::zero

// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/optimizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unordered_map>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "lockstep/lamb.h"
#include "lockstep/muon.h"
#include "training/optim/adagrad.h"
#include "training/optim/muon_step.h"

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

void require_divisible(torch::optim::Optimizer& optimizer, const ZeroOptions& options) {
  if (options.offload_optimizer && dynamic_cast<Muon*>(&optimizer) != nullptr) {
    throw Error(ExitCode::Usage, "cannot use muon with offload_optimizer")
        .fact("reason", "the products of complete matrices would be computed on the CPU")
        .hint("no offload_optimizer, or --optimizer adamw");
  }
}

PieceOptimizer::PieceOptimizer(torch::optim::Optimizer& optimizer,
                               const std::deque<FlatParameter>& flat_parameters,
                               int stage,
                               Communicator& channel)
    : optimizer_(optimizer), flat_parameters_(flat_parameters), channel_(channel), stage_(stage) {
  hand_over();
  lockstep::optim::begin_adagrad(optimizer_);
  if (auto* lamb = dynamic_cast<Lamb*>(&optimizer_); lamb != nullptr && stage > 0) {
    lamb->add_up_with([this](const std::vector<torch::Tensor>& pieces, const torch::Tensor& rows) {
      return add_up_by_parameter(pieces, rows);
    });
  }
  // At stage 0 a piece is a complete matrix, but flat.
  if (auto* muon = dynamic_cast<Muon*>(&optimizer_)) {
    muon->orthogonalize_with(
        [this](const std::vector<torch::Tensor>& pieces, std::vector<torch::Tensor> updates) {
          return orthogonalize(pieces, std::move(updates));
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
  if (auto* muon = dynamic_cast<Muon*>(&optimizer_)) {
    muon->orthogonalize_with({});
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
    const auto* muon = dynamic_cast<const MuonOptions*>(&group.options());
    std::vector<torch::Tensor> now;
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = pieces.find(parameter.unsafeGetTensorImpl());
      if (found == pieces.end() && parameter.requires_grad()) {
        throw Error(ExitCode::Usage, "the optimizer has a parameter that is not in the model")
            .fact("shape", fmt::format("{}", fmt::join(parameter.sizes(), " x ")))
            .hint("create the optimizer from model.parameters()");
      }
      if (muon != nullptr && muon->is_matrix()) {
        matrices_.insert(parameter.unsafeGetTensorImpl());
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

// Muon needs complete matrices, while momentum and parameters stay partitioned. Each worker
// computes the update of its shard up to the momentum. These updates are gathered, one flat
// parameter at a time, and each worker orthogonalizes the matrices of which it holds a piece.
//
// The alternative, to assign matrices to workers and send the results back, would compute each
// matrix once, but needs two more collectives and other shards than those of checkpoints. This
// needs one all-gather in addition to those of AdamW, with as many bytes as the parameters. A
// matrix is computed several times only if several workers hold pieces of it; at stage 3 these are
// all, as under DDP.
std::vector<torch::Tensor> PieceOptimizer::orthogonalize(const std::vector<torch::Tensor>& pieces,
                                                         std::vector<torch::Tensor> updates) {
  std::unordered_map<const void*, size_t> numbers;
  for (size_t i = 0; i < pieces.size(); ++i) {
    numbers[pieces[i].unsafeGetTensorImpl()] = i;
  }
  for (const FlatParameter& flat : flat_parameters_) {
    // The decision to gather must be the same on all workers, also on those without a piece of a
    // matrix, and whether matrices have gradients or not.
    const std::vector<Member>& members = flat.plan().members;
    if (!flat.plan().trained || std::none_of(members.begin(), members.end(), [&](const auto& each) {
          return matrices_.contains(each.parameter.unsafeGetTensorImpl());
        })) {
      continue;
    }
    std::vector<torch::Tensor> own(flat.pieces().size());
    for (size_t i = 0; i < own.size(); ++i) {
      const auto found = numbers.find(flat.pieces()[i].value.unsafeGetTensorImpl());
      own[i] = found != numbers.end() ? updates[found->second] : torch::Tensor();
    }
    const torch::Tensor all = stage_ > 0 ? gather_updates(flat, own) : torch::Tensor();
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].defined()) {
        continue;
      }
      const Piece& piece = flat.pieces()[i];
      const Member& member = members[piece.member];
      const int64_t elements = member.parameter.numel();
      const torch::Tensor flat_matrix =
          all.defined() ? all.narrow(0, member.begin, elements) : own[i];
      const torch::Tensor matrix = flat_matrix.view({member.parameter.size(0), -1});
      const double scale = lockstep::optim::muon_scale(matrix.size(0), matrix.size(1));
      // A copy, so that the complete matrix can be freed.
      updates[numbers.at(piece.value.unsafeGetTensorImpl())] =
          lockstep::optim::orthogonalize(matrix).flatten().narrow(0, piece.offset, own[i].numel()) *
          scale;
    }
  }
  return updates;
}

// The updates of all workers for a flat parameter; `updates` are those of its pieces.
// Orthogonalizing on a GPU begins with a conversion to bfloat16, so nothing is lost by sending this
// type.
torch::Tensor PieceOptimizer::gather_updates(const FlatParameter& flat,
                                             const std::vector<torch::Tensor>& updates) {
  LOCKSTEP_CHECK(flat.gradient().defined());  // reduce() leaves one on every worker
  auto options = flat.gradient().options();
  if (flat.gradient().is_cuda() && options.dtype() == torch::kFloat32) {
    options = options.dtype(torch::kBFloat16);
  }
  torch::Tensor shard = torch::zeros({flat.gradient().numel()}, options);
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].defined()) {
      const torch::Tensor place = flat.gradient_of(flat.pieces()[i]);
      shard.narrow(0, place.storage_offset() - flat.gradient().storage_offset(), place.numel())
          .copy_(updates[i]);
    }
  }
  torch::Tensor all = torch::empty({flat.padded()}, options);
  channel_.all_gather_into(all, shard);
  return all;
}

}  // namespace lockstep::strategy::zero

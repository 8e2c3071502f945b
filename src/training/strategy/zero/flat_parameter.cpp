// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/flat_parameter.h"

#include <algorithm>
#include <torch/utils.h>

#include "common/base/check.h"

namespace lockstep::strategy::zero {
namespace {

bool is_short(torch::ScalarType type) {
  return type == torch::kHalf || type == torch::kBFloat16;
}

// The type that the optimizer computes in.
torch::ScalarType wide(torch::ScalarType type) {
  return is_short(type) ? torch::kFloat32 : type;
}

torch::ScalarType bucket_type(torch::ScalarType parameters, const ZeroOptions& options) {
  if (options.communication_type != torch::ScalarType::Undefined) {
    return options.communication_type;
  }
  return parameters == torch::kBFloat16 ? torch::kFloat32 : parameters;
}

}  // namespace

FlatParameter::FlatParameter(FlatParameterPlan plan,
                             const ZeroOptions& options,
                             int rank,
                             int workers)
    : plan_(std::move(plan)),
      options_(options),
      rank_(rank),
      workers_(workers),
      flat_elements_(shard_size(plan_.elements, workers) * workers),
      has_arrived_(plan_.members.size()),
      is_taken_(plan_.members.size()) {
  given_type_ = plan_.members.front().parameter.scalar_type();
  const bool converts =
      given_type_ == torch::kFloat32 && is_short(options.parameter_type) && !plan_.keeps_type;
  lay_out(converts ? options.parameter_type : given_type_);
  bucket_type_ = bucket_type(flat_.scalar_type(), options_);
  if (plan_.trained && options_.stage == 0) {
    pieces_ = cut({0, plan_.elements}, master_, 0);
  } else if (plan_.trained) {
    pieces_ = owned();
  }
  if (!plan_.stays_whole) {
    release();
  }
}

torch::Tensor FlatParameter::view_of(const Member& member, const torch::Tensor& flat) const {
  return flat.narrow(0, member.begin, member.parameter.numel()).view(member.parameter.sizes());
}

// Copies the parameters end to end, keeps the shard of this worker, and makes the parameters views
// of the copy. master_ is taken from the exact values, before they are rounded to 16 bits.
void FlatParameter::lay_out(torch::ScalarType type) {
  torch::NoGradGuard no_grad;
  const torch::Tensor exact = torch::zeros(
      {flat_elements_}, plan_.members.front().parameter.options().requires_grad(false));
  for (const Member& member : plan_.members) {
    view_of(member, exact).copy_(member.parameter.detach());
  }
  flat_ = exact.to(type);
  const int64_t share = flat_elements_ / workers_;
  const auto own = [&](const torch::Tensor& whole) {
    return options_.stage == 0 ? whole : whole.narrow(0, rank_ * share, share);
  };
  // master_ needs memory of its own if flat_ does not keep it (stage 3) or has fewer bits.
  const bool is_separate = !plan_.stays_whole || wide(type) != type;
  if (plan_.trained) {
    master_ =
        is_separate ? own(exact).to(wide(type), /*non_blocking=*/false, /*copy=*/true) : own(flat_);
  }
  if (!plan_.stays_whole) {
    shard_ = plan_.trained && master_.scalar_type() == type ? master_ : own(flat_).clone();
  }
  if (options_.offload_optimizer && plan_.trained) {
    master_ = master_.to(torch::kCPU);
  }
  for (Member& member : plan_.members) {
    member.parameter.set_data(view_of(member, flat_));
  }
}

// The pieces of the elements in `span`. `values` begins with element `first` of the flat parameter.
std::vector<Piece> FlatParameter::cut(Span span, const torch::Tensor& values, int64_t first) const {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < plan_.members.size(); ++i) {
    const Member& member = plan_.members[i];
    const Span all{member.begin, member.begin + member.parameter.numel()};
    const Span mine = intersect(span, all);
    if (mine.size() > 0) {
      pieces.push_back({.member = i,
                        .offset = mine.begin - all.begin,
                        .value = values.narrow(0, mine.begin - first, mine.size())});
    }
  }
  return pieces;
}

std::vector<Piece> FlatParameter::owned() const {
  const Span span = shard_of(plan_.elements, workers_, rank_);
  const torch::Tensor& values = plan_.trained ? master_ : plan_.stays_whole ? flat_ : shard_;
  const bool is_whole = values.numel() == flat_elements_;
  return cut(span, values, is_whole ? 0 : rank_ * (flat_elements_ / workers_));
}

// gradient_ has the extent of master_, and a piece is a view of master_, so it has the same offset
// in both.
torch::Tensor FlatParameter::gradient_of(const Piece& piece) const {
  const int64_t begin = piece.value.storage_offset() - master_.storage_offset();
  return gradient_.narrow(0, begin, piece.value.numel());
}

void FlatParameter::allocate() {
  LOCKSTEP_CHECK(!is_whole_);
  // The StorageImpl stays, only its memory is new: every view of flat_, also in saved tensors of
  // autograd, refers to the StorageImpl.
  c10::StorageImpl& storage = *flat_.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<size_t>(flat_elements_) * flat_.element_size();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
  is_whole_ = true;
}

void FlatParameter::gather(Communicator& channel) {
  torch::NoGradGuard no_grad;
  channel.all_gather_into(flat_, shard_);
}

void FlatParameter::release() {
  c10::StorageImpl& storage = *flat_.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, flat_.device()));
  storage.set_nbytes(size_t{0});
  is_whole_ = false;
}

void FlatParameter::publish(Communicator& channel) {
  if (!plan_.trained) {
    return;
  }
  torch::NoGradGuard no_grad;
  if (!plan_.stays_whole) {
    if (!shard_.is_same(master_)) {
      shard_.copy_(master_);
    }
    LOCKSTEP_CHECK(!is_whole_);
    return;
  }
  if (options_.stage == 0) {
    if (!flat_.is_same(master_)) {
      flat_.copy_(master_);
    }
    return;
  }
  // The message must be a copy: master_ may be a view of flat_, which is the output.
  channel.all_gather_into(flat_, master_.to(flat_.options(), false, /*copy=*/true));
}

void FlatParameter::leave(Communicator& channel) {
  torch::NoGradGuard no_grad;
  const torch::Tensor& exact = plan_.trained ? master_ : plan_.stays_whole ? flat_ : shard_;
  torch::Tensor whole = exact.to(flat_.device());
  if (whole.numel() != flat_elements_) {
    whole = torch::empty({flat_elements_}, exact.options().device(flat_.device()));
    channel.all_gather_into(whole, exact.to(flat_.device(), exact.scalar_type(), false, true));
  }
  whole = whole.to(given_type_);
  for (Member& member : plan_.members) {
    member.parameter.set_data(view_of(member, whole).clone());
  }
}

void FlatParameter::begin_pass() {
  std::fill(has_arrived_.begin(), has_arrived_.end(), false);
  arrived_ = 0;
}

void FlatParameter::take_gradient(size_t member) {
  torch::NoGradGuard no_grad;
  arrived_ += has_arrived_[member] ? 0 : 1;
  has_arrived_[member] = true;
  const Member& of = plan_.members[member];
  if (!bucket_.defined()) {
    bucket_ = torch::empty({flat_elements_}, flat_.options().dtype(bucket_type_));
    bucket_.narrow(0, plan_.elements, flat_elements_ - plan_.elements).zero_();
  }
  // A second gradient of the same parameter in one bucket is added: activations may be recomputed.
  torch::Tensor place = view_of(of, bucket_);
  if (is_taken_[member]) {
    place.add_(of.parameter.grad());
  } else {
    place.copy_(of.parameter.grad());
    is_taken_[member] = true;
    ++taken_;
  }
  of.parameter.mutable_grad() = torch::Tensor();
}

void FlatParameter::reduce(Communicator& channel) {
  torch::NoGradGuard no_grad;
  if (!bucket_.defined()) {
    bucket_ = torch::zeros({flat_elements_}, flat_.options().dtype(bucket_type_));
  } else {
    for (size_t i = 0; i < is_taken_.size(); ++i) {
      if (!is_taken_[i]) {
        view_of(plan_.members[i], bucket_).zero_();
      }
    }
  }
  // Every worker reduces every flat parameter, even without gradients of its own, so the
  // collectives match.
  torch::Tensor sum = bucket_;
  if (options_.stage == 0) {
    channel.all_reduce(sum);
  } else {
    sum = channel.reduce_scatter(bucket_.view({workers_, -1}));
  }
  bucket_ = torch::Tensor();
  std::fill(is_taken_.begin(), is_taken_.end(), false);
  taken_ = 0;
  if (gradient_.defined()) {
    gradient_.add_(sum.to(gradient_.options()));
  } else {
    gradient_ = sum.to(master_.options());
  }
}

}  // namespace lockstep::strategy::zero

// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/powersgd.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <torch/utils.h>

#include "common/base/check.h"
#include "lockstep/error.h"

namespace lockstep::strategy {
namespace {

// A matrix is compressed only if it becomes smaller by at least this factor.
constexpr int64_t kMinGain = 2;

enum class Missing { LeaveZero, Draw };

// Makes the rows orthonormal (Gram-Schmidt). If a row is spanned by the rows before it, only
// rounding errors remain, which must not be scaled to length one. Such a row becomes zero or is
// drawn again.
void orthonormalize(torch::Tensor& rows, Missing missing, torch::Generator& generator) {
  const double tiny =
      100 * (rows.scalar_type() == torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                   : std::numeric_limits<float>::epsilon());
  for (int64_t i = 0; i < rows.size(0); ++i) {
    torch::Tensor row = rows[i];
    for (int attempt = 0;; ++attempt) {
      const auto before = row.norm().item<double>();
      // A second pass is needed if little remains of the row.
      for (int pass = 0; pass < 2 && i > 0; ++pass) {
        const torch::Tensor earlier = rows.narrow(0, 0, i);
        row.sub_(earlier.t().mv(earlier.mv(row)));
      }
      const auto after = row.norm().item<double>();
      if (after > tiny * before) {
        row.div_(after);
        break;
      }
      if (missing == Missing::LeaveZero || attempt > 0) {
        row.zero_();
        break;
      }
      // On the CPU, whose generator has the same state on every worker.
      row.copy_(torch::randn(row.sizes(), generator, torch::dtype(row.scalar_type())));
    }
  }
}

bool is_finite(const torch::Tensor& tensor) {
  return tensor.isfinite().all().item<bool>();
}

}  // namespace

PowerSgd::PowerSgd(const std::vector<torch::Tensor>& parameters, int rank) : rank_(rank) {
  if (rank < 1) {
    throw Error(ExitCode::Usage, fmt::format("--powersgd-rank must be at least 1, not {}", rank))
        .fact("requested", fmt::format("--powersgd-rank {}", rank), "command line")
        .hint("--powersgd-rank 1");
  }
  uint64_t number = 0;
  for (const torch::Tensor& parameter : parameters) {
    memories_[parameter.unsafeGetTensorImpl()].generator =
        torch::make_generator<torch::CPUGeneratorImpl>(number++);
  }
}

int64_t PowerSgd::rank_for(const torch::Tensor& parameter) const {
  if (parameter.dim() < 2 || parameter.numel() == 0) {
    return 0;
  }
  const int64_t rows = parameter.size(0);
  const int64_t columns = parameter.numel() / rows;
  const int64_t rank = std::min({rank_, rows, columns});
  return (rows + columns) * rank * kMinGain < rows * columns ? rank : 0;
}

PowerSgd::Memory& PowerSgd::memory_of(const torch::Tensor& parameter,
                                      int64_t columns,
                                      int64_t rank) {
  const auto found = memories_.find(parameter.unsafeGetTensorImpl());
  LOCKSTEP_CHECK(found != memories_.end());
  Memory& memory = found->second;
  if (!memory.directions.defined()) {
    const auto type =
        parameter.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const auto options = torch::dtype(type).device(parameter.device());
    memory.directions =
        torch::randn({rank, columns}, memory.generator, torch::dtype(type)).to(options);
    memory.left_out = torch::zeros({parameter.size(0), columns}, options);
  }
  return memory;
}

PowerSgd::Bucket PowerSgd::lay_out(const torch::Tensor& flat,
                                   const std::vector<torch::Tensor>& parameters) {
  Bucket bucket;
  int64_t whole_size = 0;
  int64_t p_size = 0;
  int64_t q_size = 0;
  int64_t offset = 0;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor slice = flat.narrow(0, offset, parameter.numel());
    offset += parameter.numel();
    const int64_t rank = rank_for(parameter);
    if (rank == 0) {
      bucket.whole.push_back(slice);
      whole_size += slice.numel();
      continue;
    }
    const int64_t rows = parameter.size(0);
    const int64_t columns = parameter.numel() / rows;
    bucket.matrices.push_back({.values = slice.view({rows, columns}),
                               .memory = &memory_of(parameter, columns, rank),
                               .p = {},
                               .q = {}});
    p_size += rank * rows;
    q_size += rank * columns;
  }
  bucket.first = torch::empty({whole_size + p_size}, flat.options());
  bucket.all_p = bucket.first.narrow(0, whole_size, p_size);
  bucket.all_q = torch::empty({q_size}, flat.options());
  offset = 0;
  for (const torch::Tensor& slice : bucket.whole) {
    bucket.whole_parts.push_back(bucket.first.narrow(0, offset, slice.numel()));
    offset += slice.numel();
  }
  int64_t p_offset = 0;
  int64_t q_offset = 0;
  for (Matrix& matrix : bucket.matrices) {
    const int64_t rank = matrix.memory->directions.size(0);
    const int64_t rows = matrix.values.size(0);
    const int64_t columns = matrix.values.size(1);
    matrix.p = bucket.all_p.narrow(0, p_offset, rank * rows).view({rank, rows});
    matrix.q = bucket.all_q.narrow(0, q_offset, rank * columns).view({rank, columns});
    p_offset += rank * rows;
    q_offset += rank * columns;
  }
  return bucket;
}

// With m = gradient / workers + left_out, so that the sum over workers is the average, and Q of the
// previous step:
//
//   P  = orthonormal(sum of m Q)     first message, together with the uncompressed tensors
//   Q' = sum of m^T P                second message
//   average = P Q'^T = P P^T (sum of m)
//   left_out = m - P (m^T P)^T       with m of this worker
//
// PyTorch keeps m - average instead. The sum over workers is the same, but the remainder of a
// worker then also contains the difference between its gradient and those of the others, which adds
// up without bound.
void PowerSgd::exchange(Communicator& communicator, Bucket& bucket) {
  for (size_t i = 0; i < bucket.whole.size(); ++i) {
    bucket.whole_parts[i].copy_(bucket.whole[i]);
  }
  for (Matrix& matrix : bucket.matrices) {
    matrix.values.add_(matrix.memory->left_out);
    orthonormalize(matrix.memory->directions, Missing::Draw, matrix.memory->generator);
    torch::mm_out(matrix.p, matrix.memory->directions, matrix.values.t());
  }
  communicator.all_reduce(bucket.first);

  for (size_t i = 0; i < bucket.whole.size(); ++i) {
    bucket.whole[i].copy_(bucket.whole_parts[i]);
  }
  if (bucket.matrices.empty()) {
    return;
  }
  // The optimizer skips a step that overflowed; its values must not stay in the remainder forever.
  // All workers see the same sums and therefore agree.
  if (!is_finite(bucket.all_p)) {
    for (Matrix& matrix : bucket.matrices) {
      matrix.values.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    return;
  }
  for (Matrix& matrix : bucket.matrices) {
    orthonormalize(matrix.p, Missing::LeaveZero, matrix.memory->generator);
    torch::mm_out(matrix.q, matrix.p, matrix.values);
  }
  std::vector<torch::Tensor> own;
  for (const Matrix& matrix : bucket.matrices) {
    own.push_back(matrix.q.clone());
  }
  communicator.all_reduce(bucket.all_q);

  const bool finite = is_finite(bucket.all_q);
  for (size_t i = 0; i < bucket.matrices.size(); ++i) {
    Matrix& matrix = bucket.matrices[i];
    if (finite) {
      torch::addmm_out(matrix.memory->left_out, matrix.values, matrix.p.t(), own[i], 1, -1);
      matrix.memory->directions.copy_(matrix.q);
    }
    torch::mm_out(matrix.values, matrix.p.t(), matrix.q);
  }
}

void PowerSgd::average(Communicator& communicator,
                       torch::Tensor& gradients,
                       const std::vector<torch::Tensor>& parameters) {
  torch::NoGradGuard no_grad;
  const bool computes_itself =
      gradients.scalar_type() == torch::kFloat32 || gradients.scalar_type() == torch::kFloat64;
  torch::Tensor flat = computes_itself ? gradients : gradients.to(torch::kFloat32);
  flat.mul_(1.0 / communicator.size());
  Bucket bucket = lay_out(flat, parameters);
  exchange(communicator, bucket);
  if (!computes_itself) {
    gradients.copy_(flat);
  }
}

}  // namespace lockstep::strategy

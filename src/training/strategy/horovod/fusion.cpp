// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/fusion.h"

#include <algorithm>

#include "training/strategy/horovod/adasum.h"

namespace lockstep::strategy::horovod {
namespace {

// "shared-memory" -> "SHARED_MEMORY_ALLREDUCE", in the style of Horovod's NCCL_ALLREDUCE.
std::string phase_of(std::string_view transport) {
  std::string phase(transport);
  for (char& letter : phase) {
    letter = letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
  }
  return phase + "_ALLREDUCE";
}

bool fuse(const Signature& a, const Signature& b) {
  return a.type == b.type && a.operation == b.operation;
}

}  // namespace

std::vector<std::vector<size_t>> plan_fusion(const std::vector<Signature>& tensors,
                                             int64_t fusion_bytes) {
  std::vector<std::vector<size_t>> groups;
  std::vector<bool> taken(tensors.size(), false);
  for (size_t first = 0; first < tensors.size(); ++first) {
    if (taken[first]) {
      continue;
    }
    std::vector<size_t> group = {first};
    int64_t bytes = tensors[first].wire_bytes();
    // Skips tensors of another type or operation, but stops at one that does not fit, to keep the
    // order.
    for (size_t next = first + 1; next < tensors.size(); ++next) {
      if (taken[next] || !fuse(tensors[first], tensors[next])) {
        continue;
      }
      bytes += tensors[next].wire_bytes();
      if (bytes > fusion_bytes) {
        break;
      }
      taken[next] = true;
      group.push_back(next);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

FusionBuffer::FusionBuffer(Communicator& channel, Timeline* timeline)
    : channel_(channel), timeline_(timeline), transport_phase_(phase_of(channel.kind())) {}

void FusionBuffer::reduce(std::vector<Share>& shares) {
  begin(shares, "ALLREDUCE");
  const Signature& first = shares.front().tensor;
  const torch::Tensor& value = shares.front().value;
  // Each worker decides alone, since its own value decides (undefined after join). Both ways make
  // one all-reduce of the same type and number of elements, so they match.
  const bool in_place = shares.size() == 1 && first.operation.kind == Operation::Kind::Sum &&
                        first.wire_type() == first.type && value.defined() && value.is_contiguous();
  if (in_place) {
    reduce_alone(shares.front());
  } else {
    reduce_together(shares);
  }
  end(shares);
}

void FusionBuffer::reduce_alone(Share& share) {
  if (share.tensor.operation.before != 1) {
    share.value.mul_(share.tensor.operation.before);
  }
  begin({share}, transport_phase_);
  channel_.all_reduce(share.value);
  end({share});
  if (share.tensor.operation.after != 1) {
    share.value.mul_(share.tensor.operation.after);
  }
}

void FusionBuffer::reduce_together(std::vector<Share>& shares) {
  const Operation& operation = shares.front().tensor.operation;
  const bool is_cast = shares.front().tensor.wire_type() != shares.front().tensor.type;
  int64_t elements = 0;
  for (const Share& share : shares) {
    elements += share.tensor.elements();
  }
  torch::Tensor buffer = slot(shares.front().tensor.wire_type(), elements);
  std::vector<torch::Tensor> slices;
  begin(shares, "MEMCPY_IN_FUSION_BUFFER");
  int64_t offset = 0;
  for (const Share& share : shares) {
    const int64_t count = share.tensor.elements();
    torch::Tensor slice = buffer.narrow(0, offset, count).view(share.tensor.shape);
    offset += count;
    if (!share.value.defined()) {
      slice.zero_();
    } else if (operation.before != 1) {
      // Scaled before the cast: a large gradient could overflow in 16 bits.
      slice.copy_(share.value * operation.before);
    } else {
      slice.copy_(share.value);
    }
    slices.push_back(std::move(slice));
  }
  end(shares);

  begin(shares, transport_phase_);
  if (operation.kind == Operation::Kind::Adasum) {
    adasum(buffer, shares);
  } else {
    sum(buffer);
  }
  end(shares);

  begin(shares, "MEMCPY_OUT_FUSION_BUFFER");
  // `after` is applied in the type of the tensors: after the cast back if the buffer has 16 bits,
  // in which the product could overflow or underflow.
  if (!is_cast && operation.after != 1) {
    buffer.mul_(operation.after);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].value.defined()) {
      shares[i].value.copy_(slices[i]);
      if (is_cast && operation.after != 1) {
        shares[i].value.mul_(operation.after);
      }
    }
  }
  end(shares);
}

void FusionBuffer::sum(torch::Tensor& buffer) {
  channel_.all_reduce(buffer);
}

// Every worker gathers all buffers and computes the tree itself. It receives W-1 buffers, where the
// recursive halving of Horovod receives about 2, and needs memory for W buffers; in return there is
// only one message.
void FusionBuffer::adasum(torch::Tensor& buffer, const std::vector<Share>& shares) {
  const torch::Tensor all = channel_.all_gather(buffer);
  int64_t offset = 0;
  for (const Share& share : shares) {
    const int64_t count = share.tensor.elements();
    buffer.narrow(0, offset, count).copy_(adasum_tree(all.narrow(1, offset, count)));
    offset += count;
  }
}

// One buffer per type, which only grows. Reuse is safe: reduce() copies the results out before it
// returns, and on a GPU all copies and messages are in one stream.
torch::Tensor FusionBuffer::slot(c10::ScalarType type, int64_t elements) {
  torch::Tensor& buffer = buffers_[type];
  if (!buffer.defined() || buffer.numel() < elements) {
    buffer = torch::empty({elements},
                          torch::dtype(type).device(channel_.device().value_or(torch::kCPU)));
  }
  return buffer.narrow(0, 0, elements);
}

void FusionBuffer::begin(const std::vector<Share>& shares, std::string_view phase) {
  if (timeline_ != nullptr) {
    for (const Share& share : shares) {
      timeline_->begin(share.tensor.name, phase);
    }
  }
}

void FusionBuffer::end(const std::vector<Share>& shares) {
  if (timeline_ != nullptr) {
    for (const Share& share : shares) {
      timeline_->end(share.tensor.name);
    }
  }
}

}  // namespace lockstep::strategy::horovod

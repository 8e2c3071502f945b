// SPDX-License-Identifier: Apache-2.0
#include "training/comm/chunked_reduction.h"

#include <vector>

#include "training/comm/reduce.h"

namespace lockstep::comm {
namespace {

// With W workers and W parts, worker r:
//
//   all_to_all   sends part p to worker p, receives part r of all      (W - 1) / W of the bytes
//   reduce_all   adds the W copies of part r in the order of ranks
//   all_gather   receives the sums of all parts                        (W - 1) / W of the bytes
void exchange_and_reduce(torch::Tensor& output,
                         const torch::Tensor& input,
                         Reduction reduction,
                         int size,
                         const ChunkExchange& exchange) {
  torch::Tensor pieces = torch::empty_like(input);
  torch::Tensor from = input.view(torch::kUInt8);
  torch::Tensor into = pieces.view(torch::kUInt8);
  exchange.all_to_all(into, from);
  std::vector<const void*> parts;
  for (int peer = 0; peer < size; ++peer) {
    parts.push_back(static_cast<const std::byte*>(pieces.data_ptr()) +
                    static_cast<size_t>(peer) * output.nbytes());
  }
  reduce_all(output.data_ptr(),
             parts,
             static_cast<size_t>(output.numel()),
             output.scalar_type(),
             reduction);
}

}  // namespace

bool is_half(torch::ScalarType type) {
  return type == torch::kHalf || type == torch::kBFloat16;
}

void chunked_all_reduce(torch::Tensor& tensor,
                        Reduction reduction,
                        int size,
                        const ChunkExchange& exchange) {
  // Padded to equal parts. The padding is zero for every reduction, and is cut off at the end.
  torch::Tensor flat = tensor.view({-1});
  const int64_t part = (flat.numel() + size - 1) / size;
  torch::Tensor all = flat;
  if (part * size != flat.numel()) {
    all = torch::zeros({part * size}, flat.options());
    all.narrow(0, 0, flat.numel()).copy_(flat);
  }
  torch::Tensor mine = torch::empty({part}, flat.options());
  exchange_and_reduce(mine, all, reduction, size, exchange);
  torch::Tensor bytes = all.view(torch::kUInt8);
  exchange.all_gather(bytes, mine.view(torch::kUInt8));
  if (!all.is_same(flat)) {
    flat.copy_(all.narrow(0, 0, flat.numel()));
  }
}

void chunked_reduce_scatter(torch::Tensor& output,
                            const torch::Tensor& input,
                            int size,
                            const ChunkExchange& exchange) {
  exchange_and_reduce(output, input, Reduction::Sum, size, exchange);
}

}  // namespace lockstep::comm

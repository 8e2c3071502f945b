// SPDX-License-Identifier: Apache-2.0
#include "training/comm/hierarchical_communicator.h"

#include <vector>

#include "common/base/check.h"

namespace lockstep::comm {
namespace {

// Which workers communicate with other inner groups: each worker for its share, or the first one
// for all.
enum class Bridge { Each, Leader };

// The parts of a hierarchical group. Only the last inner group may have fewer than `full`
// workers; the bridge must then be Leader.
struct Levels {
  Communicator* inner = nullptr;
  Communicator* outer = nullptr;
  Bridge bridge = Bridge::Leader;
  int full = 1;
  bool overlaps = false;
};

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(Levels levels, int rank, int size, std::string kind)
      : levels_(levels), inner_(*levels.inner), rank_(rank), size_(size), kind_(std::move(kind)) {
    LOCKSTEP_CHECK(rank_ % levels_.full == inner_.rank());
    LOCKSTEP_CHECK((levels_.outer != nullptr) == (uses_outer() && inner_groups() > 1));
    LOCKSTEP_CHECK(levels_.outer == nullptr || (levels_.outer->rank() == rank_ / levels_.full &&
                                                levels_.outer->size() == inner_groups()));
  }

  // Takes ownership of both groups. kept_outer_ is declared after kept_inner_ and therefore
  // destroyed first: it may still wait for peers.
  void keep(std::unique_ptr<Communicator> inner, std::unique_ptr<Communicator> outer) {
    kept_inner_ = std::move(inner);
    kept_outer_ = std::move(outer);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return kind_; }
  bool overlaps() const override { return levels_.overlaps; }

 protected:
  void do_barrier() override {
    inner_.barrier();
    if (levels_.outer != nullptr) {
      levels_.outer->barrier();
    }
    if (levels_.bridge == Bridge::Leader) {
      inner_.barrier();
    }
  }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    if (levels_.bridge == Bridge::Leader) {
      inner_.all_reduce(tensor, reduction);
      if (levels_.outer != nullptr) {
        levels_.outer->all_reduce(tensor, reduction);
      }
      if (inner_groups() > 1) {
        inner_.broadcast(tensor, 0);
      }
      return;
    }
    all_reduce_by_shares(tensor, reduction);
  }

  // First between the inner groups, among the workers with the inner rank of the root, then
  // within each. With Bridge::Leader, the leader first receives the tensor from the root.
  void do_broadcast(torch::Tensor& tensor, int root) override {
    const int home = root / levels_.full;
    const int inner_root = root % levels_.full;
    if (levels_.bridge == Bridge::Each) {
      if (inner_.rank() == inner_root && levels_.outer != nullptr) {
        levels_.outer->broadcast(tensor, home);
      }
      inner_.broadcast(tensor, inner_root);
      return;
    }
    if (inner_group() == home) {
      inner_.broadcast(tensor, inner_root);
    }
    if (levels_.outer != nullptr) {
      levels_.outer->broadcast(tensor, home);
    }
    if (inner_group() != home) {
      inner_.broadcast(tensor, 0);
    }
  }

  // With Bridge::Each, the workers of equal inner rank first exchange their inputs between the
  // inner groups, which gives each worker a column of the result; the inner group then gathers the
  // columns:
  //
  //              inner rank 0   1   2
  //   group 0         [ r0     r1   r2 ]      rank = group * full + inner rank
  //   group 1         [ r3     r4   r5 ]
  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    const int64_t count = input.numel();
    if (levels_.bridge == Bridge::Each) {
      torch::Tensor column =
          levels_.outer == nullptr ? input.unsqueeze(0) : levels_.outer->all_gather(input);
      const torch::Tensor all = inner_.all_gather(column);
      output.view({inner_groups(), levels_.full, count}).copy_(all.transpose(0, 1));
      return;
    }
    torch::Tensor rows = padded(inner_.all_gather(input), levels_.full);
    if (levels_.outer != nullptr) {
      rows = levels_.outer->all_gather(rows).view({-1, count});
    }
    // Only leaders have all rows here; the others get them by the broadcast below.
    if (rows.size(0) >= size_) {
      output.copy_(rows.narrow(0, 0, size_).reshape({-1}));
    }
    inner_.broadcast(output, 0);
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    const int64_t count = output.numel();
    if (levels_.bridge == Bridge::Each) {
      const torch::Tensor columns =
          input.view({inner_groups(), levels_.full, count}).transpose(0, 1).contiguous();
      const torch::Tensor mine = inner_.reduce_scatter(columns);
      output.copy_(levels_.outer == nullptr ? mine[0] : levels_.outer->reduce_scatter(mine));
      return;
    }
    torch::Tensor sum = input.clone();
    inner_.all_reduce(sum);
    torch::Tensor rows = torch::empty({levels_.full, count}, input.options());
    if (levels_.outer != nullptr) {
      rows = levels_.outer->reduce_scatter(
          padded(sum.view({size_, count}), levels_.full * inner_groups())
              .view({inner_groups(), levels_.full, count}));
    } else if (inner_groups() == 1) {
      rows = sum.view({size_, count});
    }
    if (inner_groups() > 1) {
      inner_.broadcast(rows, 0);
    }
    output.copy_(rows[inner_.rank()]);
  }

  // Complete inner groups stay as they are. If one is cut in two, its workers lack counterparts
  // in other inner groups, so the leaders act for all.
  std::unique_ptr<Communicator> do_subset(int count) override {
    const int whole = count / levels_.full;
    const int rest = count % levels_.full;
    const int parts = whole + (rest > 0 ? 1 : 0);
    const int here = inner_group() < whole ? levels_.full : inner_group() == whole ? rest : 0;
    const Bridge bridge = rest > 0 ? Bridge::Leader : levels_.bridge;
    std::unique_ptr<Communicator> inner = here == 0 ? nullptr : inner_.subset(here);
    std::unique_ptr<Communicator> outer;
    if (parts > 1 && levels_.outer != nullptr && (bridge == Bridge::Each || inner_.rank() == 0)) {
      outer = levels_.outer->subset(parts);
    }
    if (inner == nullptr) {
      return nullptr;
    }
    const Levels levels{.inner = inner.get(),
                        .outer = outer.get(),
                        .bridge = bridge,
                        .full = levels_.full,
                        .overlaps = parts > 1 && levels_.overlaps};
    auto part = std::make_unique<HierarchicalCommunicator>(levels, rank_, count, kind_);
    part->keep(std::move(inner), std::move(outer));
    return part;
  }

 private:
  int inner_group() const { return rank_ / levels_.full; }
  int inner_groups() const { return (size_ + levels_.full - 1) / levels_.full; }
  bool uses_outer() const { return levels_.bridge == Bridge::Each || inner_.rank() == 0; }

  // Each worker reduces its share within the inner group (reduce-scatter), then across
  // inner groups (all-reduce); then the inner group gathers the shares.
  void all_reduce_by_shares(torch::Tensor& tensor, Reduction reduction) {
    torch::Tensor flat = tensor.view({-1});
    const int64_t total = flat.numel();
    const int64_t share = (total + levels_.full - 1) / levels_.full;
    const torch::Tensor shares = padded(flat, share * levels_.full).view({levels_.full, share});
    torch::Tensor mine;
    if (reduction == Reduction::Sum) {
      mine = inner_.reduce_scatter(shares);
    } else {
      torch::Tensor all = shares.clone();
      inner_.all_reduce(all, reduction);
      mine = all[inner_.rank()];
    }
    if (levels_.outer != nullptr) {
      levels_.outer->all_reduce(mine, reduction);
    }
    flat.copy_(inner_.all_gather(mine).view({-1}).narrow(0, 0, total));
  }

  // `rows`, padded with zeros to `count` rows.
  static torch::Tensor padded(const torch::Tensor& rows, int64_t count) {
    if (rows.size(0) == count) {
      return rows;
    }
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = count - rows.size(0);
    return torch::cat({rows, torch::zeros(shape, rows.options())});
  }

  Levels levels_;
  Communicator& inner_;
  int rank_;
  int size_;
  std::string kind_;
  std::unique_ptr<Communicator> kept_inner_;
  std::unique_ptr<Communicator> kept_outer_;
};

// Workers without an outer group learn from the leader of their inner group which bridge is used.
Levels agree_on_levels(Communicator& inner, Communicator* outer) {
  const torch::Tensor words = torch::tensor(
      {outer != nullptr ? 1 : 0, outer != nullptr && outer->overlaps() ? 1 : 0}, torch::kInt32);
  const torch::Tensor all = inner.all_gather(words);
  const bool each = all.select(1, 0).min().item<int>() == 1;
  return {.inner = &inner,
          .outer = outer,
          .bridge = each ? Bridge::Each : Bridge::Leader,
          .full = inner.size(),
          .overlaps = all[0][1].item<int>() == 1};
}

std::unique_ptr<HierarchicalCommunicator> join_levels(
    Communicator& inner, Communicator* outer, int rank, int size, std::string kind) {
  LOCKSTEP_CHECK(size % inner.size() == 0 && rank >= 0 && rank < size);
  // A single inner group needs no outer group.
  return std::make_unique<HierarchicalCommunicator>(
      agree_on_levels(inner, size == inner.size() ? nullptr : outer), rank, size, std::move(kind));
}

}  // namespace

std::unique_ptr<Communicator> make_hierarchical_communicator(
    Communicator& inner, Communicator* outer, int rank, int size, std::string kind) {
  return join_levels(inner, outer, rank, size, std::move(kind));
}

std::unique_ptr<Communicator> make_hierarchical_communicator(std::unique_ptr<Communicator> inner,
                                                             std::unique_ptr<Communicator> outer,
                                                             int rank,
                                                             int size,
                                                             std::string kind) {
  auto both = join_levels(*inner, outer.get(), rank, size, std::move(kind));
  both->keep(std::move(inner), std::move(outer));
  return both;
}

}  // namespace lockstep::comm

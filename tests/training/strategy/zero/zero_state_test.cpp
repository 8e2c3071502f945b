// SPDX-License-Identifier: Apache-2.0
// Saves and restores the partitioned state of a training.
#include <gmock/gmock.h>
#include <map>
#include <mutex>

#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/strategy/trained.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A checkpoint in memory. Collects pieces from all threads and requires each element exactly once.
class Memory final : public PieceSource {
 public:
  void put(const std::vector<TensorPiece>& pieces) {
    const std::lock_guard lock(mutex_);
    for (const TensorPiece& piece : pieces) {
      Whole& whole = tensors_[piece.name];
      int64_t elements = 1;
      for (const int64_t size : piece.shape) {
        elements *= size;
      }
      if (!whole.values.defined()) {
        whole.shape = piece.shape;
        whole.values = torch::zeros({elements}, piece.values.options().requires_grad(false));
        whole.covered = torch::zeros({elements}, torch::kInt64);
      }
      const int64_t count = piece.values.numel();
      whole.values.narrow(0, piece.offset, count).copy_(piece.values.detach().flatten());
      whole.covered.narrow(0, piece.offset, count).add_(1);
    }
  }

  void expect_covered_once() const {
    for (const auto& [name, whole] : tensors_) {
      EXPECT_TRUE(whole.covered.eq(1).all().item<bool>()) << name;
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, whole] : tensors_) {
      all.push_back(name);
    }
    return all;
  }
  bool has(std::string_view name) const override { return tensors_.count(std::string(name)) > 0; }
  std::vector<int64_t> shape(std::string_view name) const override { return at(name).shape; }
  torch::ScalarType dtype(std::string_view name) const override {
    return at(name).values.scalar_type();
  }
  void read(std::string_view name, int64_t offset, torch::Tensor& into) const override {
    into.copy_(at(name).values.narrow(0, offset, into.numel()).view(into.sizes()));
  }
  std::string description() const override { return "memory"; }

  torch::Tensor values(std::string_view name) const { return at(name).values; }

 private:
  struct Whole {
    std::vector<int64_t> shape;
    torch::Tensor values;
    torch::Tensor covered;
  };
  const Whole& at(std::string_view name) const { return tensors_.at(std::string(name)); }

  std::mutex mutex_;
  std::map<std::string, Whole> tensors_;
};

struct Net : Spared {
  Net() { mean = register_buffer("mean", torch::zeros({3}, torch::kFloat64)); }

  torch::Tensor forward(const torch::Tensor& input) { return Spared::forward(input) + mean; }

  torch::Tensor mean;
};

ZeroOptions stage(int number) {
  return {.stage = number, .bucket_elements = 700, .persistence_threshold = 40};
}

// Steps [first, last) of a training with equal batches on all workers, so that the result does not
// depend on their number.
void train_steps(Strategy& strategy, int first, int last) {
  for (int step = first; step < last; ++step) {
    strategy.accumulate(loss_of<Net>(CrossEntropy()), sample(6, step), {});
    strategy.step({.clip_norm = 0.5});
  }
}

torch::Tensor run(int workers,
                  int number,
                  int first,
                  int last,
                  Memory* from,
                  Memory* to,
                  const std::string& optimizer = "adamw") {
  torch::Tensor result;
  run_workers(workers, [&](Communicator& comm) {
    Net model;
    model.third->bias.set_requires_grad(false);
    const auto optimized = make_optimizer(
        model.parameters(), {.name = optimizer, .lr = 0.01, .matrices = hidden_matrices(model)});
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(number)});
    strategy->adopt(model, *optimized);
    if (from != nullptr) {
      strategy->restore(*from);
    }
    train_steps(*strategy, first, last);
    if (to != nullptr) {
      to->put(*strategy->pieces());
    }
    const auto use = strategy->use_model();
    const torch::Tensor mine = flat_state(model);
    if (comm.rank() == 0) {
      result = mine;
    }
  });
  return result;
}

TEST(ZeroState, GoesOnUnderAnyStageAndNumberOfWorkers) {
  const torch::Tensor wanted = run(1, 0, 0, 6, nullptr, nullptr);
  for (const auto& [workers, number] :
       {std::pair(1, 0), std::pair(2, 0), std::pair(3, 1), std::pair(2, 2), std::pair(3, 3)}) {
    Memory saved;
    run(workers, number, 0, 3, nullptr, &saved);
    saved.expect_covered_once();
    for (const auto& [then, other] :
         {std::pair(1, 3), std::pair(3, 0), std::pair(2, 3), std::pair(4, 2), std::pair(2, 1)}) {
      EXPECT_LE(largest_difference(run(then, other, 3, 6, &saved, nullptr), wanted), 1e-12)
          << workers << " workers at stage " << number << ", then " << then << " at " << other;
    }
  }
}

TEST(ZeroState, GoesOnWithEveryOptimizer) {
  for (const std::string optimizer : {"sgd", "adam", "lamb", "adagrad", "muon"}) {
    // Muon amplifies rounding in small singular values.
    const double bound = optimizer == "muon" ? 1e-10 : 1e-12;
    const torch::Tensor wanted = run(1, 0, 0, 6, nullptr, nullptr, optimizer);
    Memory saved;
    run(3, 2, 0, 3, nullptr, &saved, optimizer);
    saved.expect_covered_once();
    EXPECT_LE(largest_difference(run(2, 3, 3, 6, &saved, nullptr, optimizer), wanted), bound)
        << optimizer;
  }
}

TEST(ZeroState, NamesEverythingOnce) {
  Memory saved;
  run(3, 3, 0, 2, nullptr, &saved);
  const std::vector<std::string> names = saved.names();
  for (const char* name : {"model.first.weight",
                           "model.third.bias",
                           "model.mean",
                           "optimizer.first.weight.exp_avg",
                           "optimizer.first.weight.exp_avg_sq",
                           "optimizer.first.weight.step"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("optimizer.third.bias.step")));
  EXPECT_EQ(saved.values("optimizer.first.weight.step").item<int64_t>(), 2);
  EXPECT_EQ(saved.shape("optimizer.first.weight.exp_avg"), (std::vector<int64_t>{40, 12}));
}

TEST(ZeroState, OfAnotherModelIsRefusedByTheFirstDifference) {
  Memory saved;
  run(2, 2, 0, 1, nullptr, &saved);
  comm::Solo solo;
  torch::nn::Linear other(3, 4);
  torch::optim::SGD sgd(other->parameters(), 0.1);
  const auto strategy = make_strategy("deepspeed", solo, {.zero = stage(1)});
  strategy->adopt(*other, sgd);
  const torch::Tensor before = other->weight.detach().clone();
  EXPECT_THAT([&] { strategy->restore(saved); },
              ThrowsMessage<Error>("cannot resume from memory: it belongs to another model\n"
                                   "  differs: weight\n"
                                   "  file:    has no such tensor\n"
                                   "  model:   [4, 3]"));
  EXPECT_TRUE(other->weight.equal(before));
}

}  // namespace
}  // namespace lockstep

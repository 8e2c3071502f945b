// SPDX-License-Identifier: Apache-2.0
//
// Trains a model whose state has a given size, for checkpoint_bench.py. Prints the seconds of every
// step as JSON.
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lockstep/lockstep.h>

namespace {

using Clock = std::chrono::steady_clock;

// Wide layers have many parameters and need little computation.
struct WideImpl : torch::nn::Module {
  explicit WideImpl(int64_t parameters) {
    constexpr int64_t kWidth = 1024;
    const int64_t count = std::max<int64_t>(1, parameters / (kWidth * kWidth));
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(
          register_module(fmt::format("layer{}", i),
                          torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false))));
    }
    head = register_module("head", torch::nn::Linear(kWidth, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : layers) {
      x = torch::relu(layer(x)) + x;
    }
    return head(x);
  }

  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear head = nullptr;
};
TORCH_MODULE(Wide);

class Watch final : public lockstep::Callback {
 public:
  void on_step(const lockstep::TrainState& /*state*/) override {
    const Clock::time_point now = Clock::now();
    seconds_.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  void on_end(const lockstep::TrainState& /*state*/) override {
    fmt::print("{{\"steps\": [{:.4f}]}}\n", fmt::join(seconds_, ", "));
  }

 private:
  Clock::time_point last_ = Clock::now();
  std::vector<double> seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Trains a model whose state has a given size",
      .options = {{.name = "--megabytes", .value = "1000", .help = "Size of weights and moments"}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    // 12 bytes per parameter: the weight and two moments.
    const int64_t parameters = std::stoll(session.option("--megabytes")) * 1'000'000 / 12;
    Wide net(parameters);
    const auto adam = session.make_optimizer(net->parameters(), {.name = "adam", .lr = 1e-4});
    const auto data =
        lockstep::tensors(torch::randn({4096, 1024}), torch::zeros({4096}, torch::kInt64));
    lockstep::Trainer trainer(session, {.epochs = 1, .global_batch = 8});
    trainer.add(std::make_unique<Watch>());
    trainer.fit(*net, *adam, data, nullptr, lockstep::CrossEntropy());
  });
}

// SPDX-License-Identifier: Apache-2.0

// Measures the benefit of tensor fusion: a step of a model with many small parameters under -s
// horovod with and without its fusion buffer, and with one all-reduce per gradient.
//
//   build/bin/lockstep run --nproc-per-node 2 -- build/bench/fusion_bench --transport gloo
//
// Prints one table row per variant. The variants alternate, so that other load affects all equally.

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <lockstep/lockstep.h>
#include <vector>

namespace lockstep {
namespace {

// Many parameters with a loss of negligible cost, so that the exchange dominates a step.
struct ManyTensors : torch::nn::Module {
  ManyTensors(int count, int64_t elements) {
    for (int i = 0; i < count; ++i) {
      tensors.push_back(register_parameter(fmt::format("tensor{}", i), torch::ones({elements})));
    }
  }

  std::vector<torch::Tensor> tensors;
};

Loss sum_of_all(torch::nn::Module& model, const Batch& /*batch*/) {
  torch::Tensor sum = torch::zeros({});
  for (const torch::Tensor& tensor : dynamic_cast<ManyTensors&>(model).tensors) {
    sum = sum + tensor.sum();
  }
  return {sum};
}

class Way {
 public:
  Way(std::string name, std::function<void()> step)
      : name_(std::move(name)), step_(std::move(step)) {}

  void run(Communicator& comm, int steps) {
    for (int i = 0; i < steps; ++i) {
      comm.barrier();
      const auto begin = std::chrono::steady_clock::now();
      step_();
      times_.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
              .count());
    }
  }

  void forget() { times_.clear(); }

  std::string row(const Communicator& comm) {
    std::sort(times_.begin(), times_.end());
    const auto at = [this](double part) {
      return times_[static_cast<size_t>(part * static_cast<double>(times_.size() - 1))];
    };
    return fmt::format("| {} | {} | {} | {:.2f} [{:.2f}-{:.2f}] |",
                       comm.kind(),
                       comm.size(),
                       name_,
                       at(0.5),
                       at(0.1),
                       at(0.9));
  }

 private:
  std::string name_;
  std::function<void()> step_;
  std::vector<double> times_;
};

// A model with its optimizer under one strategy.
struct Trained {
  Trained(Communicator& comm, int count, int64_t elements, const StrategyOptions& options)
      : model(count, elements),
        sgd(model.parameters(), 0.0),
        strategy(make_strategy("horovod", comm, options)) {
    strategy->adopt(model, sgd);
  }

  void step() {
    strategy->accumulate(sum_of_all, {}, {});
    strategy->step();
  }

  ManyTensors model;
  torch::optim::SGD sgd;
  std::unique_ptr<Strategy> strategy;
};

void measure(Session& session) {
  Communicator& comm = session.communicator();
  const int count = std::stoi(session.option("--tensors"));
  const int64_t elements = std::stoll(session.option("--bytes")) / 4;
  const auto fused = [&](int64_t bytes, bool overlap) {
    return std::make_unique<Trained>(
        comm,
        count,
        elements,
        StrategyOptions{.overlap = overlap, .horovod = {.fusion_bytes = bytes}});
  };
  const auto buffer = fused(int64_t{128} << 20, true);
  const auto after = fused(int64_t{128} << 20, false);
  const auto alone = fused(0, true);
  ManyTensors plain(count, elements);
  torch::optim::SGD plain_sgd(plain.parameters(), 0.0);

  std::vector<Way> ways;
  ways.emplace_back("horovod, 128 MiB buffer", [&] { buffer->step(); });
  ways.emplace_back("horovod, 128 MiB buffer, after backward", [&] { after->step(); });
  ways.emplace_back("horovod, no buffer", [&] { alone->step(); });
  ways.emplace_back("loop of all-reduces after backward", [&] {
    sum_of_all(plain, {}).value.backward();
    for (const torch::Tensor& tensor : plain.tensors) {
      torch::Tensor gradient = tensor.grad();
      comm.all_reduce(gradient);
      gradient.div_(comm.size());
    }
    plain_sgd.step();
    for (const torch::Tensor& tensor : plain.tensors) {
      tensor.mutable_grad() = torch::Tensor();
    }
  });
  ways.emplace_back("backward and optimizer alone", [&] {
    sum_of_all(plain, {}).value.backward();
    plain_sgd.step();
    for (const torch::Tensor& tensor : plain.tensors) {
      tensor.mutable_grad() = torch::Tensor();
    }
  });

  const int rounds = std::stoi(session.option("--rounds"));
  for (int round = 0; round <= rounds; ++round) {
    for (Way& way : ways) {
      way.run(comm, 10);
      if (round == 0) {  // warm-up: fills the response cache and allocates the buffers
        way.forget();
      }
    }
  }
  for (Way& way : ways) {
    session.say(way.row(comm));
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Measures the benefit of tensor fusion",
                                  .options = {{"--tensors", "200", "Number of parameters"},
                                              {"--bytes", "4096", "Bytes per parameter"},
                                              {"--rounds", "10", "Number of rounds of ten steps"}}};
  return lockstep::run(argc, argv, program, lockstep::measure);
}

// SPDX-License-Identifier: Apache-2.0
//
// Small models of the kinds that break data-parallel training, on generated data. verify_test.cpp
// starts this program with --verify-strategies.
#include <cmath>
#include <fmt/format.h>
#include <lockstep/lockstep.h>

namespace lockstep {
namespace {

namespace nn = torch::nn;

struct Net : nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

struct Cnn : Net {
  explicit Cnn(bool norm)
      : first(register_module("first", nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)))),
        second(register_module("second", nn::Conv2d(8, 8, 3))),
        last(register_module("last", nn::Linear(8 * 3 * 3, 5))) {
    if (norm) {
      first_norm = register_module("first_norm", nn::BatchNorm2d(8));
      second_norm = register_module("second_norm", nn::BatchNorm2d(8));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = first(input.view({-1, 1, 8, 8}));
    x = torch::relu(first_norm ? first_norm(x) : x);
    x = second(x);
    x = torch::relu(second_norm ? second_norm(x) : x);
    return last(torch::max_pool2d(x, 2).flatten(1));
  }

  nn::Conv2d first, second;
  nn::BatchNorm2d first_norm = nullptr, second_norm = nullptr;
  nn::Linear last;
};

// A linear layer whose weight can belong to another layer.
struct Dense : nn::Module {
  Dense(int64_t from, int64_t to, const torch::Tensor& shared = {})
      : weight(register_parameter("weight",
                                  shared.defined() ? shared : torch::randn({to, from}) * 0.2)),
        bias(register_parameter("bias", torch::zeros({to}))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    return torch::nn::functional::linear(input, weight, bias);
  }

  torch::Tensor weight, bias;
};

// Two layers share one weight tensor.
struct Tied : Net {
  Tied()
      : in(register_module("in", std::make_shared<Dense>(64, 32))),
        a(register_module("a", std::make_shared<Dense>(32, 32))),
        b(register_module("b", std::make_shared<Dense>(32, 32, a->weight))),
        out(register_module("out", std::make_shared<Dense>(32, 5))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::tanh(a->forward(torch::tanh(in->forward(input.flatten(1)))));
    return out->forward(torch::tanh(b->forward(x)));
  }

  std::shared_ptr<Dense> in, a, b, out;
};

// `never` is used in no step, `sometimes` for few samples: not on every worker, and in many steps
// on none.
struct Unused : Net {
  Unused()
      : in(register_module("in", nn::Linear(64, 32))),
        never(register_module("never", nn::Linear(32, 32))),
        sometimes(register_module("sometimes", nn::Linear(32, 32))),
        out(register_module("out", nn::Linear(32, 5))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::tanh(in(input));
    const torch::Tensor few = (input.select(1, 0) > 1.9).nonzero().flatten();
    if (few.numel() == 0) {
      return out(x);
    }
    return out(x.index_add(0, few, torch::tanh(sometimes(x.index_select(0, few)))));
  }

  nn::Linear in, never, sometimes, out;
};

// Rows of a sample are its tokens: embedding, one block of attention and GELU, a score per class.
struct Transformer : Net {
  static constexpr int64_t kWidth = 16;
  static constexpr int64_t kHeads = 2;

  Transformer()
      : tokens(register_module("tokens", nn::Embedding(16, kWidth))),
        places(register_module("places", nn::Embedding(64, kWidth))),
        first_norm(register_module("first_norm", norm())),
        qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        merge(register_module("merge", nn::Linear(kWidth, kWidth))),
        second_norm(register_module("second_norm", norm())),
        wide(register_module("wide", nn::Linear(kWidth, 4 * kWidth))),
        narrow(register_module("narrow", nn::Linear(4 * kWidth, kWidth))),
        last_norm(register_module("last_norm", norm())),
        head(register_module("head", nn::Linear(kWidth, 5))) {}

  static nn::LayerNorm norm() { return nn::LayerNorm(nn::LayerNormOptions({kWidth})); }

  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t batch = x.size(0);
    const int64_t length = x.size(1);
    const torch::Tensor parts =
        qkv(x).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(kWidth / kHeads));
    const torch::Tensor weights =
        torch::softmax(parts[0].matmul(parts[1].transpose(-2, -1)) * scale, -1);
    return merge(weights.matmul(parts[2]).transpose(1, 2).reshape({batch, length, kWidth}));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor words = (input.flatten(1) * 4 + 8).clamp(0, 15).to(torch::kInt64);
    torch::Tensor x = tokens(words) + places(torch::arange(words.size(1)));
    x = x + attend(first_norm(x));
    x = x + narrow(torch::gelu(wide(second_norm(x))));
    return head(last_norm(x).mean(1));
  }

  nn::Embedding tokens, places;
  nn::LayerNorm first_norm;
  nn::Linear qkv, merge;
  nn::LayerNorm second_norm;
  nn::Linear wide, narrow;
  nn::LayerNorm last_norm;
  nn::Linear head;
};

std::shared_ptr<Net> make_net(const std::string& name) {
  if (name == "cnn" || name == "cnn-norm") {
    return std::make_shared<Cnn>(name == "cnn-norm");
  }
  if (name == "transformer") {
    return std::make_shared<Transformer>();
  }
  if (name == "unused") {
    return std::make_shared<Unused>();
  }
  return std::make_shared<Tied>();
}

DatasetPtr points() {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const torch::Tensor input = torch::randn({600, 64}, generator);
  return tensors(input, input.narrow(1, 0, 5).argmax(1));
}

constexpr int64_t kGlobalBatch = 22;

// The first loss depends on the rank that computes it, the second on the composition of the batch:
// neither can be distributed. The other two return the gradient that a wrong strategy would
// compute: one that does not divide by the number of workers, and one that averages the means of
// parts of different sizes. The number of workers follows from the size of the part.
Loss loss_of_net(const std::string& kind, int rank, Net& net, const Batch& batch) {
  const torch::Tensor value = CrossEntropy()(net, batch).value;
  if (kind == "rank") {
    return value * (1 + 0.01 * rank);
  }
  if (kind == "batch") {
    return value * value;
  }
  const double parts = static_cast<double>(kGlobalBatch) / static_cast<double>(batch.size());
  if (kind == "undivided") {
    return value * std::round(parts);
  }
  if (kind == "mean-of-means") {
    return value * (parts / std::round(parts));
  }
  return value;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Models that are hard to share out",
      .options = {{"--model", "tied", "", {"cnn", "cnn-norm", "tied", "unused", "transformer"}},
                  {"--loss", "plain", "", {"plain", "rank", "batch", "undivided", "mean-of-means"}},
                  {"--loop", "trainer", "Who trains", {"trainer", "own", "own-verified"}}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const std::string& model = session.option("--model");
    const auto net = lockstep::make_net(model);
    // docs/numerics.md explains why the learning rate is not the same for all.
    const double rate = model == "transformer" ? 0.01 : 0.05;
    const auto optimizer = session.make_optimizer(net->parameters(), {.name = "sgd", .lr = rate});
    const auto loss = [kind = session.option("--loss"), rank = session.rank()](
                          lockstep::Net& it, const lockstep::Batch& batch) {
      return lockstep::loss_of_net(kind, rank, it, batch);
    };
    const lockstep::TrainerOptions options{
        .global_batch = lockstep::kGlobalBatch,
        .strategy = {.find_unused_parameters = model == "unused"}};
    if (session.option("--loop") == "trainer") {
      lockstep::Trainer trainer(session, options);
      trainer.fit(*net, *optimizer, lockstep::points(), nullptr, loss);
    } else if (session.option("--loop") == "own-verified" && session.wants_verification()) {
      lockstep::verify_strategies(session, *net, *optimizer, lockstep::points(), loss, options);
    } else {
      session.make_strategy()->adopt(*net, *optimizer);
    }
  });
}

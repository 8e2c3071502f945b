// SPDX-License-Identifier: Apache-2.0
//
// The fused parts of a ResNet against libtorch's operators, on a GPU.
#include "training/models/resnet_fused.h"

#include <ATen/Context.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include "lockstep/models.h"
#include "lockstep/strategy.h"
#include "training/models/autocast.h"

namespace lockstep {
namespace {

class FusedResNet : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      GTEST_SKIP() << "needs a build with CUDA, and a GPU";
    }
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    if (models::find_conv_engine(torch::empty({1}, torch::kCUDA), nullptr) == nullptr) {
      GTEST_SKIP() << "needs a build with CUDA";
    }
    torch::manual_seed(11);
  }
};

std::shared_ptr<ImageClassifier> make_net(bool small_images = false, bool recompute = false) {
  auto net = resnet(FusedResNet::GetParam(),
                    {.classes = 10,
                     .small_images = small_images,
                     .zero_last_gamma = false,
                     .recompute = recompute});
  const torch::NoGradGuard no_grad;
  for (const auto& item : net->named_parameters()) {
    // Makes the parameters of the batch norms differ from each other.
    if (item.value().dim() == 1) {
      item.value().add_(torch::randn_like(item.value()) * 0.2);
    }
  }
  net->to(torch::kCUDA);
  return net;
}

std::shared_ptr<ImageClassifier> copy_of(const std::shared_ptr<ImageClassifier>& net,
                                         bool small_images,
                                         bool recompute = false) {
  auto copy = make_net(small_images, recompute);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < net->parameters().size(); ++i) {
    copy->parameters()[i].copy_(net->parameters()[i]);
  }
  for (size_t i = 0; i < net->buffers().size(); ++i) {
    copy->buffers()[i].copy_(net->buffers()[i]);
  }
  return copy;
}

Batch some_images(int64_t count, int64_t side) {
  const auto device = torch::device(torch::kCUDA);
  return {torch::randint(0, 256, {count, 3, side, side}, device.dtype(torch::kUInt8))
              .contiguous(torch::MemoryFormat::ChannelsLast),
          torch::randint(10, {count}, device.dtype(torch::kInt64))};
}

struct Computed {
  double loss;
  std::vector<torch::Tensor> gradients;
};

Computed compute(ImageClassifier& net,
                 const Batch& batch,
                 std::optional<torch::ScalarType> type,
                 bool by_libtorch = false) {
  // --sync-batchnorm sets this entry, too; the model then uses the operators of libtorch.
  std::optional<c10::DebugInfoGuard> guard;
  if (by_libtorch) {
    guard.emplace(c10::DebugInfoKind::TEST_INFO_2, std::make_shared<c10::DebugInfoBase>());
  }
  torch::Tensor loss;
  {
    const models::AutocastScope scope(torch::kCUDA, type);
    loss = CrossEntropy()(net, batch).value;
  }
  net.zero_grad();
  loss.backward();
  Computed result{loss.item<double>(), {}};
  for (const torch::Tensor& parameter : net.parameters()) {
    result.gradients.push_back(parameter.grad().to(torch::kFloat64).clone());
  }
  return result;
}

// Makes cuDNN choose the same algorithm each time. Matrix products use the same algorithm from the
// second use of a shape on.
class SameBits {
 public:
  SameBits() : tried_(at::globalContext().benchmarkCuDNN()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  ~SameBits() {
    at::globalContext().setDeterministicCuDNN(false);
    at::globalContext().setBenchmarkCuDNN(tried_);
  }
  SameBits(const SameBits&) = delete;
  SameBits& operator=(const SameBits&) = delete;

 private:
  bool tried_;
};

double relative(const torch::Tensor& found, const torch::Tensor& wanted) {
  return ((found - wanted).norm() / (wanted.norm() + 1e-12)).item<double>();
}

TEST_P(FusedResNet, IsNoLessExactThanLibtorchsOwnBfloat16) {
  for (const bool small_images : {false, true}) {
    SCOPED_TRACE(small_images ? "3x3 stem" : "7x7 stem");
    const auto fused = make_net(small_images);
    const auto plain = copy_of(fused, small_images);
    const auto exact = copy_of(fused, small_images);
    exact->to(torch::kFloat64);
    const Batch batch = some_images(24, small_images ? 32 : 128);
    Batch wide_batch = batch;
    const auto floats = batch.input.to(torch::kFloat64);
    const auto options = torch::dtype(torch::kFloat64).device(torch::kCUDA);
    wide_batch.input =
        (floats / 255 - torch::tensor({0.485, 0.456, 0.406}, options).view({3, 1, 1})) /
        torch::tensor({0.229, 0.224, 0.225}, options).view({3, 1, 1});
    const Computed wanted = compute(*exact, wide_batch, std::nullopt);
    const Computed found = compute(*fused, batch, torch::kBFloat16);
    const Computed other = compute(*plain, batch, torch::kBFloat16, /*by_libtorch=*/true);
    EXPECT_NEAR(found.loss, wanted.loss, 0.02 * wanted.loss);
    double ours = 0;
    double theirs = 0;
    const auto names = fused->named_parameters();
    for (size_t i = 0; i < wanted.gradients.size(); ++i) {
      const double mine = relative(found.gradients[i], wanted.gradients[i]);
      const double libtorchs = relative(other.gradients[i], wanted.gradients[i]);
      ours += mine;
      theirs += libtorchs;
      EXPECT_LT(mine, 1.6 * libtorchs + 0.02) << names[i].key();
    }
    EXPECT_LT(ours, 1.1 * theirs) << "over all parameters";
    const auto buffers = exact->named_buffers();
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_LT(
          relative(fused->buffers()[i].to(torch::kFloat64), buffers[i].value().to(torch::kFloat64)),
          0.05)
          << buffers[i].key();
    }
  }
}

TEST_P(FusedResNet, HasTheSameGradientsWhenBlocksAreComputedAgain) {
  const SameBits same;
  const auto plain = make_net();
  const auto again = copy_of(plain, false, /*recompute=*/true);
  const Batch batch = some_images(8, 64);
  for (int i = 0; i < 2; ++i) {
    compute(*plain, batch, torch::kBFloat16);
    compute(*again, batch, torch::kBFloat16);
  }
  const Computed first = compute(*plain, batch, torch::kBFloat16);
  const Computed second = compute(*again, batch, torch::kBFloat16);
  EXPECT_NEAR(first.loss, second.loss, 1e-3);
  for (size_t i = 0; i < first.gradients.size(); ++i) {
    EXPECT_LT(relative(second.gradients[i], first.gradients[i]), 0.02) << i;
  }
  for (size_t i = 0; i < plain->buffers().size(); ++i) {
    EXPECT_LT(
        relative(again->buffers()[i].to(torch::kFloat64), plain->buffers()[i].to(torch::kFloat64)),
        1e-2)
        << i << ": averages move once";
  }
}

TEST_P(FusedResNet, HasTheLossOfItsScoresByKernelsOfItsOwn) {
  const auto net = make_net();
  Batch batch = some_images(24, 64);
  for (const auto& [smoothing, target] :
       std::vector<std::pair<double, int64_t>>{{0.0, 3}, {0.1, 3}, {0.1, -100}}) {
    SCOPED_TRACE(std::to_string(smoothing) + ", " + std::to_string(target));
    batch.target[5] = target;  // -100 is ignored
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    const Loss loss = CrossEntropy{.label_smoothing = smoothing}(*net, batch);
    ASSERT_EQ(loss.scores.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(loss.value.scalar_type(), torch::kFloat32);
    EXPECT_THAT(loss.value.grad_fn()->name(), ::testing::HasSubstr("EntropyFunction"));
    const torch::Tensor wide = loss.scores.detach().to(torch::kFloat64).requires_grad_();
    const torch::Tensor wanted = torch::nn::functional::cross_entropy(
        wide,
        batch.target,
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
    EXPECT_NEAR(loss.value.item<double>(), wanted.item<double>(), 1e-4);
    // The gradient of a scaled loss, as in gradient accumulation.
    const torch::Tensor found = torch::autograd::grad({loss.value / 4}, {loss.scores})[0];
    const torch::Tensor slope = torch::autograd::grad({wanted / 4}, {wide})[0];
    EXPECT_LT(relative(found.to(torch::kFloat64), slope), 4e-3);
  }
  batch.target[5] = 3;
  const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
  // Probabilities as targets are left to libtorch.
  const torch::Tensor chances =
      torch::nn::functional::one_hot(batch.target, 10).to(torch::kFloat32);
  const Loss mixed = CrossEntropy()(*net, {batch.input, chances});
  EXPECT_NEAR(mixed.value.item<double>(),
              torch::nn::functional::cross_entropy(mixed.scores.to(torch::kFloat32), chances)
                  .item<double>(),
              1e-4);
  net->eval();
  const torch::NoGradGuard no_grad;
  const Loss loss = CrossEntropy{.label_smoothing = 0.1}(*net, batch);
  EXPECT_NEAR(loss.value.item<double>(),
              torch::nn::functional::cross_entropy(loss.scores.to(torch::kFloat64), batch.target)
                  .item<double>(),
              1e-4)
      << "what is evaluated is the plain cross entropy";
}

TEST_P(FusedResNet, GoesLibtorchsWayWhereItMust) {
  const auto net = make_net();
  const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
  // Batch norms in evaluation mode keep their running averages.
  net->apply([](torch::nn::Module& module) {
    if (auto* norm = module.as<torch::nn::BatchNorm2d>()) {
      norm->eval();
    }
  });
  const torch::Tensor before = net->named_buffers()["bn1.running_mean"].clone();
  const torch::Tensor deeper = net->named_buffers()["layer2.0.bn1.running_mean"].clone();
  net->forward(some_images(4, 64).input);
  EXPECT_TRUE(net->named_buffers()["bn1.running_mean"].equal(before));
  EXPECT_TRUE(net->named_buffers()["layer2.0.bn1.running_mean"].equal(deeper));
  net->train();
  // Images with one channel are rejected by libtorch, and not read beyond their end.
  EXPECT_THROW(net->forward(torch::zeros({2, 1, 64, 64}, torch::kCUDA)), c10::Error);
  // So are targets on another device or of another length.
  const Batch batch = some_images(4, 64);
  EXPECT_THROW(CrossEntropy()(*net, {batch.input, batch.target.cpu()}), c10::Error);
  EXPECT_THROW(CrossEntropy()(*net, {batch.input, batch.target.slice(0, 0, 3)}), c10::Error);
  // The fused stem does not support sizes that are not multiples of four.
  EXPECT_EQ(net->forward(some_images(4, 66).input).size(1), 10);
}

TEST_P(FusedResNet, DoesNotHideWhatIsNoNumber) {
  const auto net = make_net();
  {
    const torch::NoGradGuard no_grad;
    net->named_parameters()["layer1.0.conv1.weight"][0][0][0][0] =
        std::numeric_limits<float>::quiet_NaN();
  }
  const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
  EXPECT_TRUE(std::isnan(CrossEntropy()(*net, some_images(4, 64)).value.item<double>()));
}

TEST_P(FusedResNet, LearnsToTellAFewImagesApart) {
  const auto net = make_net();
  const Batch batch = some_images(32, 128);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  double first = 0;
  double last = 0;
  for (int step = 0; step < 100; ++step) {
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    const torch::Tensor loss = CrossEntropy()(*net, batch).value;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_GT(first, 1.5);
  EXPECT_LT(last, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Nets,
                         FusedResNet,
                         ::testing::Values("resnet18", "resnet50"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace lockstep

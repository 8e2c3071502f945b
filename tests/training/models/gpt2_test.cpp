// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpt2.h"

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <optional>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "lockstep/strategy.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

constexpr int kNoTorch = 77;

Gpt2Options small() {
  return {.layers = 2, .heads = 3, .width = 24, .context = 16, .vocabulary = 50};
}

Batch some_tokens(int64_t count, int64_t length) {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{5});
  const torch::Tensor all = torch::randint(50, {count, length + 1}, generator);
  return {all.narrow(1, 0, length).contiguous(), all.narrow(1, 1, length).contiguous()};
}

// Larger weights than the initial ones, so that every part affects the result.
void spread(Gpt2& net) {
  const torch::NoGradGuard no_grad;
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{6});
  for (torch::Tensor& parameter : net.parameters()) {
    parameter.add_(torch::randn(parameter.sizes(), generator) * 0.2);
  }
}

TEST(Gpt2, HasTheParametersOfThePublishedModels) {
  for (const auto& [name, count] :
       {std::pair("124M", 124'439'808L), std::pair("gpt2", 124'439'808L)}) {
    const Gpt2 net(gpt2_options(name));
    int64_t found = 0;
    for (const torch::Tensor& parameter : net.parameters()) {
      found += parameter.numel();
    }
    EXPECT_EQ(found, count) << name;
  }
  const Gpt2Options largest = gpt2_options("gpt2-xl");
  EXPECT_THAT((std::vector{largest.layers, largest.heads, largest.width}),
              ElementsAre(48, 25, 1600));
  EXPECT_THAT([] { gpt2_options("125M"); },
              ThrowsMessage<Error>(HasSubstr("unknown size of GPT-2: '125M'")));
}

TEST(Gpt2, HasTheNamesOfHuggingFace) {
  Gpt2Options options = small();
  options.layers = 1;
  std::vector<std::string> names;
  for (const auto& item : Gpt2(options).named_parameters()) {
    names.push_back(item.key());
  }
  EXPECT_THAT(names,
              ElementsAre("transformer.wte.weight",
                          "transformer.wpe.weight",
                          "transformer.h.0.ln_1.weight",
                          "transformer.h.0.ln_1.bias",
                          "transformer.h.0.attn.c_attn.weight",
                          "transformer.h.0.attn.c_attn.bias",
                          "transformer.h.0.attn.c_proj.weight",
                          "transformer.h.0.attn.c_proj.bias",
                          "transformer.h.0.ln_2.weight",
                          "transformer.h.0.ln_2.bias",
                          "transformer.h.0.mlp.c_fc.weight",
                          "transformer.h.0.mlp.c_fc.bias",
                          "transformer.h.0.mlp.c_proj.weight",
                          "transformer.h.0.mlp.c_proj.bias",
                          "transformer.ln_f.weight",
                          "transformer.ln_f.bias"));
}

TEST(Gpt2, TakesWeightsOfBothSpellings) {
  const torch::Tensor any = torch::ones({1});
  EXPECT_THAT(as_gpt2_weights({{"wte.weight", any},
                               {"h.0.attn.bias", any},
                               {"h.0.attn.c_attn.bias", any},
                               {"transformer.h.0.attn.masked_bias", any},
                               {"transformer.ln_f.bias", any},
                               {"lm_head.weight", any}}),
              ElementsAre(Pair("transformer.wte.weight", ::testing::_),
                          Pair("transformer.h.0.attn.c_attn.bias", ::testing::_),
                          Pair("transformer.ln_f.bias", ::testing::_)));
}

// Runs `script`, another implementation of GPT-2 in Python, on the weights of `net`. Its results
// are files in `folder`. Returns why it could not run, or nothing.
std::optional<std::string> run_reference(const std::string& script,
                                         const Gpt2& net,
                                         const Batch& batch,
                                         const std::filesystem::path& folder) {
  save_weights(folder / "weights.pt", collect_model(net));
  save_weights(folder / "batch.pt", {{"input", batch.input}, {"target", batch.target}});
  const os::CommandResult python =
      os::run_command({LOCKSTEP_PYTHON,
                       LOCKSTEP_SOURCE_DIR "/tests/training/models/" + script,
                       folder.string(),
                       "3",
                       "2"});
  if (python.status.code == kNoTorch) {
    return fmt::format("{} lacks a package: {}", LOCKSTEP_PYTHON, python.output);
  }
  EXPECT_EQ(python.status.code, 0) << python.errors;
  return std::nullopt;
}

// Compares scores, loss and all gradients with those of `script`; they may differ by `bound`.
void expect_equal_to(const std::string& script, double bound) {
  const os::TemporaryDirectory folder;
  Gpt2 net(small());
  spread(net);
  const Batch batch = some_tokens(3, 11);
  if (const auto reason = run_reference(script, net, batch, folder.path())) {
    GTEST_SKIP() << *reason;
  }

  const torch::Tensor scores = net.forward(batch.input);
  const Loss loss = NextToken()(net, batch);
  loss.value.backward();
  NamedTensors found = {{"scores", scores}, {"loss", loss.value}};
  for (const auto& item : net.named_parameters()) {
    found.emplace_back("gradient." + item.key(), item.value().grad());
  }
  size_t compared = 0;
  for (const auto& [name, expected] : load_weights(folder.path() / "expected.pt")) {
    const auto mine = std::find_if(
        found.begin(), found.end(), [&key = name](const auto& item) { return item.first == key; });
    ASSERT_NE(mine, found.end()) << name;
    const torch::Tensor difference = (mine->second.to(torch::kFloat64) - expected).abs();
    EXPECT_LE(difference.max().item<double>(),
              bound * std::max(1.0, expected.abs().max().item<double>()))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, found.size());
}

TEST(Gpt2, EqualsADescriptionOfItInPython) {
  expect_equal_to("gpt2_reference.py", 1e-5);
}

TEST(Gpt2, EqualsThatOfHuggingFace) {
  expect_equal_to("gpt2_hugging_face.py", 1e-4);
}

TEST(Gpt2, LoadsFilesThatTransformersWrites) {
  const os::TemporaryDirectory folder;
  Gpt2 net(small());
  spread(net);
  if (const auto reason =
          run_reference("gpt2_hugging_face.py", net, some_tokens(1, 2), folder.path())) {
    GTEST_SKIP() << *reason;
  }
  for (const char* const variant : {"lm", "base"}) {
    const std::filesystem::path file = folder.path() / variant / "model.safetensors";
    Gpt2 loaded(small());
    apply_model(loaded, as_gpt2_weights(load_weights(file)), file.string());
    for (const auto& item : net.named_parameters()) {
      EXPECT_TRUE(loaded.named_parameters()[item.key()].equal(item.value()))
          << variant << ": " << item.key();
    }
  }
}

TEST(Gpt2, SeesNothingThatComesLater) {
  Gpt2 net(small());
  spread(net);
  const torch::Tensor tokens = some_tokens(1, 9).input;
  torch::Tensor other = tokens.clone();
  other[0][8] = (tokens[0][8].item<int64_t>() + 1) % 50;
  const torch::Tensor before = net.forward(tokens);
  const torch::Tensor after = net.forward(other);
  EXPECT_TRUE(before.narrow(1, 0, 8).equal(after.narrow(1, 0, 8)));
  EXPECT_FALSE(before.select(1, 8).equal(after.select(1, 8)));
  EXPECT_THAT(
      [&] {
        net.forward(torch::zeros({1, 17}, torch::kInt64));
      },
      ThrowsMessage<Error>(
          "input of 17 tokens exceeds the context length\n  maximum: 16  (the model)"));
}

TEST(Gpt2, HasTheSameGradientsWhenBlocksAreComputedAgain) {
  Gpt2Options options = small();
  Gpt2 plain(options);
  spread(plain);
  options.recompute = true;
  Gpt2 again(options);
  apply_model(again, collect_model(plain), "plain");
  const Batch batch = some_tokens(2, 7);
  NextToken()(plain, batch).value.backward();
  NextToken()(again, batch).value.backward();
  for (size_t i = 0; i < plain.parameters().size(); ++i) {
    EXPECT_TRUE(plain.parameters()[i].grad().equal(again.parameters()[i].grad())) << i;
  }
}

TEST(Gpt2, WritesOnTheSameTextForTheSameSeed) {
  Gpt2 net(small());
  spread(net);
  const std::vector<int64_t> prompt = {3, 4};
  const auto first = generate(net, prompt, {.count = 30, .seed = 2});
  EXPECT_EQ(first.size(), 32U) << "beyond the context of 16, too";
  EXPECT_EQ(generate(net, prompt, {.count = 30, .seed = 2}), first);
  EXPECT_NE(generate(net, prompt, {.count = 30, .seed = 3}), first);
  EXPECT_TRUE(net.is_training());
  const auto likeliest = generate(net, prompt, {.count = 5, .temperature = 0});
  EXPECT_EQ(likeliest[2],
            net.forward(torch::tensor({{3, 4}}, torch::kInt64))[0][1].argmax().item<int64_t>());
  EXPECT_EQ(generate(net, prompt, {.count = 5, .temperature = 0, .stop = likeliest[2]}).size(), 3U);
  EXPECT_THAT([&] { generate(net, {}); },
              ThrowsMessage<Error>(HasSubstr("cannot generate text from an empty prompt")));
}

}  // namespace
}  // namespace lockstep

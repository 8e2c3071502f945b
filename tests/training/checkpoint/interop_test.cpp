// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <gmock/gmock.h>
#include <sstream>
#include <sys/wait.h>

#include "common/os/files.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kNoTorch = 77;

// Tests with PyTorch in Python, through interop.py.
class PythonInterop : public ::testing::Test {
 protected:
  // Runs interop.py; skips the test without PyTorch.
  void python(const std::string& verb) {
    const std::filesystem::path output = folder() / "output.txt";
    const std::string command = std::string(LOCKSTEP_PYTHON) + " " + LOCKSTEP_SOURCE_DIR +
                                "/tests/training/checkpoint/interop.py " + verb + " " +
                                folder().string() + " > " + output.string() + " 2>&1";
    const int status = std::system(command.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTorch) {
      GTEST_SKIP() << LOCKSTEP_PYTHON << " has no PyTorch (python3-torch): " << read(output);
    }
    ASSERT_EQ(status, 0) << read(output);
  }

  const std::filesystem::path& folder() const { return directory_.path(); }

  // The values of fill() in interop.py.
  static NamedTensors filled() {
    Net net;
    const torch::NoGradGuard no_grad;
    int number = 0;
    for (auto& [name, tensor] : collect_model(*net)) {
      torch::Tensor values = torch::arange(tensor.numel());
      if (!tensor.is_floating_point()) {
        values = values.div(64, "trunc");
      }
      tensor.copy_((values.to(tensor.scalar_type()) / 64 + number++).reshape(tensor.sizes()));
    }
    return collect_model(*net);
  }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(PythonInterop, PythonLoadsWhatWeSave) {
  Net net;
  apply_model(*net, filled(), "");
  save_weights(folder() / "model.pt", collect_model(*net));
  const torch::Tensor base = torch::arange(6, torch::kFloat).view({2, 3});
  save_weights(folder() / "kinds.pt",
               {{"float", base},
                {"double", base.to(torch::kDouble)},
                {"half", base.to(torch::kHalf)},
                {"bfloat16", base.to(torch::kBFloat16)},
                {"long", base.to(torch::kLong)},
                {"bool", base > 2},
                {"scalar", torch::tensor(2.5)},
                {"empty", torch::empty({0, 3})},
                {"transposed", base.t()}});
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.5));
  train_step(net, adam, 1);
  save_value(folder() / "optimizer.pt", collect_optimizer(adam, collect_model(*net)));

  python("check");
}

TEST_F(PythonInterop, WeLoadWhatPythonSaves) {
  python("write");
  if (IsSkipped()) {
    return;
  }

  EXPECT_TRUE(identical(load_weights(folder() / "state_dict.pt"), filled()));
  EXPECT_TRUE(identical(load_weights(folder() / "protocol4.pt"), filled()));
  Net net;
  apply_model(*net, load_weights(folder() / "state_dict.pt"), "state_dict.pt");
  EXPECT_EQ(load_weights(folder() / "parameters.pt").size(), net->parameters().size());

  const auto views = load_weights(folder() / "views.pt");
  const torch::Tensor base = torch::arange(24, torch::kFloat).view({4, 6});
  EXPECT_TRUE(identical(views,
                        {{"transposed", base.t()},
                         {"columns", base.slice(1, 1, 3)},
                         {"row", base[2]},
                         {"scalar", torch::tensor(2.5)},
                         {"empty", torch::empty({0, 3})},
                         {"bfloat16", base.to(torch::kBFloat16)},
                         {"half", base.to(torch::kHalf)},
                         {"double", base.to(torch::kDouble)},
                         {"flags", base > 3},
                         {"ints", base.to(torch::kLong)},
                         {"bytes", base.to(torch::kByte)}}));
}

TEST_F(PythonInterop, WeLoadAWholeTrainingState) {
  python("write");
  if (IsSkipped()) {
    return;
  }

  const auto root = load_value(folder() / "training.pt").toGenericDict();
  EXPECT_EQ(root.at("epoch").toInt(), 3);
  EXPECT_EQ(root.at("best").toDouble(), 0.25);
  EXPECT_FALSE(root.at("done").toBool());
  EXPECT_EQ(root.at("name").toStringRef(), "run");
  EXPECT_TRUE(root.at("none").isNone());
  std::ostringstream history;
  history << root.at("history") << root.at("shape");
  EXPECT_EQ(history.str(), "[1.5, (2, x)](2, 3)");
  const auto optimizer = root.at("optimizer").toGenericDict();
  const auto first = optimizer.at("state").toGenericDict().at(0).toGenericDict();
  EXPECT_EQ(first.at("exp_avg").toTensor().sizes(), torch::IntArrayRef({1}));
  const c10::IValue groups = optimizer.at("param_groups");
  EXPECT_EQ(groups.toListRef()[0].toGenericDict().at("lr").toDouble(), 0.5);
  EXPECT_EQ(load_weights(folder() / "training.pt", "model").size(), filled().size());
}

TEST_F(PythonInterop, PicklesOfCodeAndOldFormatsAreRefused) {
  python("write");
  if (IsSkipped()) {
    return;
  }

  EXPECT_THAT(error_of([&] { load_weights(folder() / "module.pt"); }),
              StartsWith("74 cannot read " + (folder() / "module.pt").string() +
                         ": it contains the Python object __main__.Net, not only tensors and plain "
                         "values\n  byte: "));
  EXPECT_THAT(error_of([&] { load_weights(folder() / "legacy.pt"); }),
              HasSubstr("it has the format of torch.save before PyTorch 1.6"));
}

}  // namespace
}  // namespace lockstep::checkpoint

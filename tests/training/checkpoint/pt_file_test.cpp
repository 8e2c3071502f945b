// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/pt_file.h"

#include <gmock/gmock.h>

#include "common/os/files.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PtFile : public ::testing::Test {
 protected:
  NamedTensors save_and_load(const NamedTensors& tensors) {
    save_weights(file_, tensors);
    return load_weights(file_);
  }

  os::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "weights.pt";
};

TEST_F(PtFile, GivesBackEveryTypeBitByBit) {
  torch::manual_seed(1);
  NamedTensors tensors;
  for (const torch::ScalarType type :
       {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kComplexFloat}) {
    tensors.emplace_back(c10::toString(type), torch::randn({3, 5}).to(type));
  }
  for (const torch::ScalarType type :
       {torch::kLong, torch::kInt, torch::kShort, torch::kChar, torch::kByte, torch::kBool}) {
    tensors.emplace_back(c10::toString(type), torch::randint(0, 2, {7}).to(type));
  }
  tensors.emplace_back("nan", torch::tensor({std::nan(""), double{INFINITY}, -0.0}));

  EXPECT_TRUE(identical(save_and_load(tensors), tensors));
}

TEST_F(PtFile, GivesBackEveryShape) {
  const torch::Tensor base = torch::arange(24, torch::kFloat).view({4, 6});
  const NamedTensors tensors = {
      {"scalar", torch::tensor(3.5)},
      {"empty", torch::empty({0})},
      {"empty matrix", torch::empty({3, 0, 2})},
      {"transposed", base.t()},
      {"slice", base.slice(1, 1, 3)},
      {"every other", base.slice(0, 0, 4, 2)},
      {"expanded", torch::ones({1, 2}).expand({3, 2})},
      {"parameter", torch::ones({2}).requires_grad_()},
      {"channels last", torch::randn({2, 3, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast)}};

  EXPECT_TRUE(identical(save_and_load(tensors), tensors));
}

TEST_F(PtFile, KeepsOneTensorOfTwoNamesOnce) {
  const torch::Tensor weight = torch::randn({100, 100});

  const NamedTensors back = save_and_load({{"encoder", weight}, {"decoder", weight}});

  EXPECT_EQ(back[0].second.data_ptr(), back[1].second.data_ptr());
  EXPECT_LT(std::filesystem::file_size(file_), 45000);
}

TEST_F(PtFile, SavesAViewWithoutTheRestOfItsStorage) {
  save_weights(file_, {{"row", torch::zeros({1000, 1000})[3]}});

  EXPECT_LT(std::filesystem::file_size(file_), 6000);
}

TEST_F(PtFile, HoldsTreesOfPlainValues) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("lr", 0.125);
  dict.insert(7, true);
  dict.insert("big", int64_t{-5000000000});
  dict.insert("list", c10::List<int64_t>({1, 70000, -3}));
  dict.insert("pair", c10::ivalue::Tuple::create({0.5, 0.75}));
  dict.insert("nothing", c10::IValue());

  save_value(file_, dict);
  const c10::IValue back = load_value(file_);

  std::ostringstream text;
  text << back;
  EXPECT_EQ(text.str(),
            "{lr: 0.125, 7: True, big: -5000000000, list: [1, 70000, -3], "
            "pair: (0.5, 0.75), nothing: None}");
}

TEST_F(PtFile, IsRefusedAtEveryLengthButItsOwn) {
  save_weights(file_, {{"a", torch::ones({3})}, {"b", torch::arange(4)}});
  const std::string bytes = read(file_);

  for (size_t length = bytes.size(); length-- > 0;) {
    std::filesystem::resize_file(file_, length);
    ASSERT_THAT(error_of([&] { load_weights(file_); }),
                StartsWith("74 cannot read " + file_.string() + ": "))
        << "cut to " << length << " of " << bytes.size() << " bytes";
  }
}

TEST_F(PtFile, IsRefusedOrTheSameWithAnyBitFlipped) {
  const NamedTensors tensors = {{"a", torch::ones({3})}, {"b", torch::arange(4)}};
  save_weights(file_, tensors);
  const std::string bytes = read(file_);

  int refused = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 3) {
    const auto byte = static_cast<std::streamoff>(bit / 8);
    const char good = bytes[bit / 8];
    std::fstream file(file_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(byte).put(static_cast<char>(good ^ (1 << bit % 8))).flush();
    try {
      ASSERT_TRUE(identical(load_weights(file_), tensors)) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Io);
      ++refused;
    }
    file.seekp(byte).put(good);
  }
  EXPECT_GT(refused, 500);
}

TEST_F(PtFile, ReportsTheError) {
  write(file_, "");
  EXPECT_EQ(error_of([&] { load_weights(file_); }),
            "74 cannot read " + file_.string() +
                ": it ends early: there is no zip directory (truncated while it was copied or "
                "written?)\n  byte: 0");
  write(file_, "hello");
  EXPECT_EQ(error_of([&] { load_weights(file_); }),
            "74 cannot read " + file_.string() +
                ": it is not a file of torch.save (no zip archive)\n  byte: 0");
  write(file_, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.");
  EXPECT_EQ(
      error_of([&] { load_weights(file_); }),
      "74 cannot read " + file_.string() +
          ": it has the format of torch.save before PyTorch 1.6\n  try: python3 -c 'import sys, "
          "torch; f = sys.argv[1]; torch.save(torch.load(f, weights_only=True), f + "
          "\".new\")' " +
          file_.string());
  EXPECT_EQ(error_of([&] { load_weights(directory_.path() / "none.pt"); }),
            "74 cannot read " + directory_.path().string() + "/none.pt: No such file or directory");
  EXPECT_EQ(error_of([&] { load_weights(directory_.path()); }),
            "74 cannot read " + directory_.path().string() + ": Is a directory");
}

TEST_F(PtFile, RefusesATorchScriptModule) {
  torch::save(torch::nn::Linear(2, 2), file_.string());

  EXPECT_EQ(error_of([&] { load_weights(file_); }),
            "74 cannot read " + file_.string() +
                ": it is a TorchScript module, not a state dict\n  try: save model.state_dict() "
                "with torch.save, or use lockstep::save_weights");
}

TEST_F(PtFile, NamesTheEntriesThatCouldBeMeant) {
  c10::impl::GenericDict root(c10::StringType::get(), c10::AnyType::get());
  root.insert("epoch", 3);
  root.insert("model", as_value({{"w", torch::ones({2})}}));
  save_value(file_, root);

  EXPECT_EQ(load_weights(file_, "model").front().first, "w");
  EXPECT_EQ(
      error_of([&] { load_weights(file_); }),
      "64 cannot load weights from " + file_.string() +
          ": its entry \"epoch\" is of type Int, not a tensor\n  try: select the entry \"model\", "
          "which is a dict");
  EXPECT_EQ(error_of([&] { load_weights(file_, "net"); }),
            "64 cannot load weights from " + file_.string() +
                ": it has no entry \"net\"\n  try: select the entry \"model\", which is a dict");
}

TEST_F(PtFile, LeavesTheOldOneWhereTheNewOneCannotBeSaved) {
  save_weights(file_, {{"w", torch::ones({2})}});

  EXPECT_EQ(error_of([&] {
              save_weights(file_, {{"w", torch::zeros({2})}, {"w", torch::zeros({2})}});
            }),
            "64 cannot save two tensors with the same name, \"w\"");
  EXPECT_EQ(error_of([&] {
              save_weights(file_, {{"w", torch::ones({2, 2}).to_sparse()}});
            }),
            "64 cannot save a SparseCPUFloatType tensor: only dense tensors are supported");
  EXPECT_EQ(error_of([&] { save_weights(directory_.path() / "no" / "w.pt", {}); }),
            "74 cannot create " + directory_.path().string() + "/no/.w.pt." +
                std::to_string(::gettid()) + ".partial: No such file or directory");
  EXPECT_TRUE(identical(load_weights(file_), {{"w", torch::ones({2})}}));
}

}  // namespace
}  // namespace lockstep::checkpoint

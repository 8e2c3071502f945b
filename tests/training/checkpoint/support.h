// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <torch/torch.h>

#include "lockstep/checkpoint.h"
#include "lockstep/error.h"

// Helpers of the checkpoint tests.
namespace lockstep::checkpoint {

// Exit code and full text of the Error that `body` throws: "74 cannot read ...".
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "nothing was thrown";
}

// Whether type, shape and bits are equal; NaN equals NaN.
inline bool identical(const torch::Tensor& one, const torch::Tensor& other) {
  const torch::Tensor a = one.detach().contiguous();
  const torch::Tensor b = other.detach().contiguous();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

inline bool identical(const NamedTensors& one, const NamedTensors& other) {
  return std::equal(
      one.begin(), one.end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
        return a.first == b.first && identical(a.second, b.second);
      });
}

inline std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

inline void flip_bit(const std::filesystem::path& file, size_t byte) {
  std::string bytes = read(file);
  bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ 4);
  write(file, bytes);
}

// A model with parameters, buffers, a child and a grandchild.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width = 4) {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    head = register_module(
        "head", torch::nn::Sequential(torch::nn::Linear(12, width), torch::nn::Linear(width, 2)));
    scale = register_parameter("scale", torch::ones({1}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head->forward(norm(conv(x)).flatten(1)) * scale;
  }

  torch::nn::Conv2d conv = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
  torch::nn::Sequential head = nullptr;
  torch::Tensor scale;
};
TORCH_MODULE(Net);

// One step on a batch that depends only on `number`.
inline void train_step(Net& net, torch::optim::Optimizer& optimizer, int number) {
  const torch::Tensor x =
      torch::arange(5 * 9, torch::kFloat).mul(0.37 + number).sin().view({5, 1, 3, 3});
  optimizer.zero_grad();
  net->forward(x).square().mean().backward();
  optimizer.step();
}

}  // namespace lockstep::checkpoint

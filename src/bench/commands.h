// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// What lockstep-bench measures; each prints to stdout, returns the exit code of a training that has
// told its failure itself, and throws an Error where it cannot begin.
namespace lockstep::bench {

// What all of them know.
struct CommonOptions {
  std::string device = "auto";
  std::filesystem::path json = {};  // a file for every figure; empty: none
  bool peer = false;                // the same in Python, in the same run
  std::string python = "python3";
  std::vector<std::string> flags = {};  // of training programs, handed on
};

struct Gpt2BenchOptions {
  CommonOptions common;
  std::string size = "124M";
  int64_t batch = 64;
  int64_t context = 0;  // 0: all that the model can look at
  std::string precision = "bf16";
  int64_t steps = 20;  // of each of the three timed blocks
  int64_t warmup = 5;
  std::string optimizer = "adamw";
  std::string strategy = {};  // empty: what a program has alone
  std::filesystem::path curve = {};
  std::filesystem::path weights = {};
  std::filesystem::path save_weights = {};
  std::filesystem::path tokens = {};
  std::filesystem::path save_tokens = {};
  std::string peer_mode = "compile";
};

int measure_gpt2(const Gpt2BenchOptions& options);

struct MnistBenchOptions {
  CommonOptions common;
  std::string net = "cnn";
  int64_t batch = 64;
  int64_t steps = 500;  // of each of the timed blocks
  int64_t warmup = 50;
  double accuracy = 0;  // percent; not 0: measures the way there, from the command on
  bool generated = false;
  std::string data_dir = "data";
  double until = 0;  // the same, in the program that is timed
};

int measure_mnist(const MnistBenchOptions& options);
int measure_mnist_accuracy(const MnistBenchOptions& options);
int train_to_accuracy(const MnistBenchOptions& options);

struct ResnetBenchOptions {
  CommonOptions common;
  std::string net = "resnet50";
  int64_t batch = 256;
  int64_t size = 224;
  std::string precision = "bf16";
  int64_t steps = 20;  // of each of the three timed blocks
  int64_t warmup = 8;
  std::filesystem::path curve = {};
  std::filesystem::path save_weights = {};
  std::filesystem::path save_images = {};
  std::string peer_mode = "compile";
};

int measure_resnet(const ResnetBenchOptions& options);

struct LoaderBenchOptions {
  CommonOptions common;
  std::filesystem::path data_dir = {};  // empty: drawn images
  bool is_tiny = false;                 // TinyImageNet there, not ImageNet
  bool is_generated = false;            // the same as no data_dir, said
  int64_t images = 1000;                // of the set, evenly spread
  int64_t size = 224;                   // pixels of both sides of a sample
  int64_t batch = 64;
  std::vector<int> threads = {};  // empty: 1 and as many as cores
  double seconds = 2;             // of each of the three rounds
};

int measure_loader(LoaderBenchOptions options);

struct AllreduceBenchOptions {
  CommonOptions common;
  std::vector<int64_t> kilobytes = {4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144};
  double seconds = 0.5;  // spent on each size
  int workers = 0;       // starts so many; 0: this process is one of them
  std::string transport = "auto";
};

int measure_allreduce(const AllreduceBenchOptions& options);

}  // namespace lockstep::bench

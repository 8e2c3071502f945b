// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The subcommands of lockstep-bench. Each prints to stdout. It returns the exit code of the
// training, which prints its own errors, and throws an Error if the measurement cannot start.
namespace lockstep::bench {

// Options of all subcommands.
struct CommonOptions {
  std::string device = "auto";
  std::filesystem::path json = {};      // output file; empty: none
  bool peer = false;                    // also measure the Python peer
  std::string python = {};              // of the peer; empty: find_python()
  std::vector<std::string> flags = {};  // passed to the training
};

struct Gpt2BenchOptions {
  CommonOptions common;
  std::string size = "124M";
  int64_t batch = 64;
  int64_t context = 0;  // 0: context length of the model
  std::string precision = "bf16";
  int64_t steps = 20;  // per timed block; there are three
  int64_t warmup = 5;
  std::string optimizer = "adamw";
  std::optional<double> lr = {};  // none: 6e-4, or 0.02 for muon
  std::string strategy = {};      // empty: default of a single process
  std::filesystem::path curve = {};
  std::filesystem::path weights = {};
  std::filesystem::path save_weights = {};
  std::filesystem::path tokens = {};
  std::filesystem::path save_tokens = {};
  std::string peer_mode = "compile";
  bool recompute = false;  // in lockstep only, not in the peer
  bool sweep = false;
  int64_t largest_batch = 512;  // upper limit of a sweep
};

int measure_gpt2(const Gpt2BenchOptions& options);

// Measures combinations of precision, recomputation and batch size, and prints the fastest.
int sweep_gpt2(const Gpt2BenchOptions& options);

struct MnistBenchOptions {
  CommonOptions common;
  std::string net = "cnn";
  int64_t batch = 64;
  int64_t steps = 500;  // per timed block
  int64_t warmup = 50;
  double accuracy = 0;  // percent; not 0: measure the time from the command to this accuracy
  bool generated = false;
  std::string data_dir = "data";
  double until = 0;  // target accuracy of the child process that is timed
};

int measure_mnist(const MnistBenchOptions& options);
int measure_mnist_accuracy(const MnistBenchOptions& options);
int train_to_accuracy(const MnistBenchOptions& options);

struct ResnetBenchOptions {
  CommonOptions common;
  std::string net = "resnet50";
  int64_t batch = 256;
  int64_t size = 224;
  bool small_images = false;  // 3x3 stem without pooling
  std::string precision = "bf16";
  int64_t steps = 20;  // per timed block; there are three
  int64_t warmup = 8;
  std::filesystem::path curve = {};
  std::filesystem::path save_weights = {};
  std::filesystem::path save_images = {};
  std::string peer_mode = "compile";
};

int measure_resnet(const ResnetBenchOptions& options);

struct LoaderBenchOptions {
  CommonOptions common;
  std::filesystem::path data_dir = {};  // empty: generated images
  bool is_tiny = false;                 // data_dir contains TinyImageNet instead of ImageNet
  bool is_generated = false;            // explicit form of an empty data_dir
  int64_t images = 1000;                // evenly spread over the data set
  int64_t size = 224;                   // width and height of a sample in pixels
  int64_t batch = 64;
  std::vector<int> threads = {};  // empty: 1 and the number of cores
  double seconds = 2;             // per round; there are three
  std::string jpeg = "cpu";       // cpu or gpu
};

int measure_loader(LoaderBenchOptions options);

struct AllreduceBenchOptions {
  CommonOptions common;
  std::vector<int64_t> kilobytes = {4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144};
  double seconds = 0.5;  // per size
  int workers = 0;       // number of workers to start; 0: this process is a worker
  std::string transport = "auto";
};

int measure_allreduce(const AllreduceBenchOptions& options);

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
//
// Time to accuracy, from the command to the end of the process. A child process is timed, because
// the start-up (loading libtorch, reading the data, creating the CUDA context) is part of the
// answer:
//
//   measure_mnist_accuracy()   parent: writes IDX files, starts child and peer alternately
//   train_to_accuracy()        child (--until): trains, writes the time of its first step
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <numeric>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/os/files.h"
#include "common/os/host.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "lockstep/optimizer.h"
#include "lockstep/trainer.h"
#include "tools/bench/commands.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

constexpr int kRuns = 3;
constexpr int64_t kBatch = 128;
// Ends a run that never reaches the accuracy; the table then shows the accuracy that it reached.
constexpr int64_t kMaxEpochs = 20;
constexpr int64_t kValidateEvery = 100;

// IDX headers: magic number with type and number of dimensions, then the extents, big-endian.
std::string big_endian(std::initializer_list<int64_t> numbers) {
  std::string bytes;
  for (const int64_t number : numbers) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes += static_cast<char>((number >> shift) & 0xff);
    }
  }
  return bytes;
}

std::string bytes_of(const torch::Tensor& values) {
  const torch::Tensor bytes = values.round().clamp(0, 255).to(torch::kUInt8).contiguous();
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

// Writes plain IDX files, so that lockstep and the peer read the same data. Undoes the
// normalization of the data set with the mean and deviation of MNIST, so that readers get bytes of
// 0 to 255 as in the original files.
void write_idx(const Dataset& digits, const std::filesystem::path& prefix) {
  std::vector<int64_t> all(static_cast<size_t>(digits.size()));
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = digits.batch(all);
  const int64_t count = batch.size();
  os::write_file(
      prefix.string() + "-images-idx3-ubyte",
      big_endian({0x803, count, 28, 28}) + bytes_of(batch.input.mul(0.3081).add(0.1307).mul(255)));
  os::write_file(prefix.string() + "-labels-idx1-ubyte",
                 big_endian({0x801, count}) + bytes_of(batch.target.to(torch::kFloat32)));
}

// Records the time of the first step and stops at the target test accuracy. Waits for the device at
// step 1 only; another wait would slow down the training.
class Finish final : public Callback {
 public:
  Finish(torch::Device device, double accuracy) : device_(device), accuracy_(accuracy) {}

  void on_step(const TrainState& state) override {
    if (state.step == 1) {
      wait_for(device_);
      first_step_ = wall_time();
    }
  }
  void on_evaluation(const TrainState& state) override {
    is_there_ = state.evaluation && state.evaluation->accuracy.value_or(0) >= accuracy_;
  }
  bool wants_to_stop() const override { return is_there_; }
  double first_step() const { return first_step_; }

 private:
  torch::Device device_;
  double accuracy_;
  double first_step_ = 0;
  bool is_there_ = false;
};

// One execution of a program, from the command to its end.
struct Run {
  double seconds = 0;
  double first_step = 0;  // seconds after the command
  double steps = 0;
  double accuracy = 0;
};

// wall_time() in both processes: the child reports an absolute time, so that the parent can compute
// the time since its command.
Run run_once(const std::vector<std::string>& command, const std::filesystem::path& file) {
  const double begin = wall_time();
  run_to_end(command);
  Run run{.seconds = wall_time() - begin};
  const nlohmann::json json =
      nlohmann::json::parse(os::read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(ExitCode::Bug, fmt::format("cannot read the results in {}", file.string()));
  }
  run.first_step = find_figure(json, "first_step_time").value_or(begin) - begin;
  run.steps = find_figure(json, "steps").value_or(0);
  run.accuracy = find_figure(json, "accuracy").value_or(0);
  return run;
}

// The run with the median duration.
Run median_run(std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::seconds);
  return runs[runs.size() / 2];
}

nlohmann::json to_json(const std::vector<Run>& runs) {
  nlohmann::json json = nlohmann::json::array();
  for (const Run& run : runs) {
    json.push_back({{"seconds", run.seconds},
                    {"first_step_seconds", run.first_step},
                    {"steps", run.steps},
                    {"accuracy", run.accuracy}});
  }
  return json;
}

void report(const MnistBenchOptions& options,
            const std::string& origin,
            const std::vector<Run>& ours,
            const std::vector<Run>& theirs) {
  const Run mine = median_run(ours);
  const auto row = [&](const char* name, double Run::*figure, double factor, int digits) -> Row {
    Row made{name, mine.*figure * factor, std::nullopt, digits};
    if (!theirs.empty()) {
      made.theirs = median_run(theirs).*figure * factor;
    }
    return made;
  };
  fmt::print("MNIST to {:g} % test accuracy, {}, {} images per step, {}; median of {} runs\n\n",
             options.accuracy,
             options.net,
             kBatch,
             origin,
             kRuns);
  fmt::print("{}",
             format_rows({row("s, command to result", &Run::seconds, 1, 2),
                          row("s, command to first step", &Run::first_step, 1, 2),
                          row("steps", &Run::steps, 1, 0),
                          row("test accuracy, %", &Run::accuracy, 100, 2)},
                         theirs.empty() ? "" : "PyTorch eager"));
  if (!options.common.json.empty()) {
    nlohmann::json json = {{"what", "mnist-accuracy"},
                           {"accuracy", options.accuracy},
                           {"net", options.net},
                           {"origin", origin},
                           {"lockstep", to_json(ours)}};
    if (!theirs.empty()) {
      json["peer"] = to_json(theirs);
    }
    os::write_file(options.common.json, json.dump(1) + "\n");
  }
}

}  // namespace

int train_to_accuracy(const MnistBenchOptions& options) {
  std::vector<std::string> flags = {
      "--device", options.common.device, "--data-dir", options.data_dir};
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  return in_session(flags, [&](Session& session) {
    const DatasetPair digits = mnist(session.data_dir());
    const auto net = digit_net(options.net);
    const auto optimizer = session.make_optimizer(net->parameters(), {.name = "sgd", .lr = 0.05});
    Trainer trainer(session,
                    {.epochs = kMaxEpochs,
                     .global_batch = kBatch,
                     .validate_every = kValidateEvery,
                     .checkpoint_every = -1,
                     .evaluation_batch = 1000});
    // The trainer owns the callback and outlives `finish`.
    auto callback = std::make_unique<Finish>(session.device(), options.until / 100);
    const Finish& finish = *callback;
    trainer.add(std::move(callback));
    const TrainResult result = trainer.fit(*net,
                                           *optimizer,
                                           on_device(digits.train, session.device()),
                                           on_device(digits.test, session.device()),
                                           CrossEntropy());
    const nlohmann::json json = {{"first_step_time", finish.first_step()},
                                 {"steps", result.steps},
                                 {"accuracy", result.test_accuracy.value_or(0)}};
    os::write_file(options.common.json, json.dump());
  });
}

// Child and peer get the same options and alternate, so that slow changes of the machine affect
// both. Both write to the same file, which run_once() reads before the next one starts.
int measure_mnist_accuracy(const MnistBenchOptions& options) {
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("mnist", options.common.python);
  }
  const os::TemporaryDirectory scratch("lockstep-bench-mnist");
  const DatasetPair digits =
      options.generated ? generated_digits(20000, 4000, 1) : mnist(options.data_dir);
  os::make_directories(scratch.path() / "mnist");
  write_idx(*digits.train, scratch.path() / "mnist" / "train");
  write_idx(*digits.test, scratch.path() / "mnist" / "t10k");
  const std::string file = (scratch.path() / "figures.json").string();
  const std::vector<std::string> same = {"--net",
                                         options.net,
                                         "--until",
                                         fmt::format("{}", options.accuracy),
                                         "--data-dir",
                                         scratch.path().string(),
                                         "--json",
                                         file,
                                         "--device",
                                         options.common.device};
  std::vector<std::string> our_command = {os::own_executable(), "mnist"};
  our_command.insert(our_command.end(), same.begin(), same.end());
  for (const std::string& flag : options.common.flags) {
    our_command.push_back("--flag=" + flag);
  }
  std::vector<std::string> their_command = {find_python(options.common.python), script.string()};
  their_command.insert(their_command.end(), same.begin(), same.end());
  std::vector<Run> ours;
  std::vector<Run> theirs;
  for (int i = 0; i < kRuns; ++i) {
    ours.push_back(run_once(our_command, file));
    if (options.common.peer) {
      theirs.push_back(run_once(their_command, file));
    }
  }
  report(options, digits.origin, ours, theirs);
  return 0;
}

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/optimizer.h"
#include "lockstep/strategy.h"

namespace lockstep {

namespace train {
struct Flags;
struct SessionParts;
}  // namespace train

// An option of one training program, beside those that every program has.
struct ProgramOption {
  std::string name;   // "--net"
  std::string value;  // the default; "no" makes it a flag, which is then "yes" when given
  std::string help;
  std::vector<std::string> choices = {};  // empty: any text
};

// What a training program says of itself.
struct Program {
  std::string about;  // one sentence for --help
  std::vector<ProgramOption> options = {};
};

// A worker's view of its run: its place in the gang, its device, directories and options.
//
// run() makes it before the program's body and joins the gang; it leaves the gang afterwards. One
// thread uses it.
class Session {
 public:
  explicit Session(std::unique_ptr<train::SessionParts> parts);
  ~Session();

  int rank() const { return communicator().rank(); }
  int world_size() const { return communicator().size(); }
  Communicator& communicator() const;
  torch::Device device() const;

  // Where data sets lie: --data-dir, else LOCKSTEP_DATA_DIR, else ./data.
  const std::filesystem::path& data_dir() const;

  // Where this run keeps events and checkpoints; the same on all workers.
  const std::filesystem::path& run_dir() const;

  // What the user gave for one of the program's own options, or its default.
  const std::string& option(std::string_view name) const;

  // The same as a number from `least` to `most`; throws an Error that quotes what is none.
  double number(std::string_view name,
                double least = std::numeric_limits<double>::lowest(),
                double most = std::numeric_limits<double>::max()) const;

  // The same as a whole number.
  int64_t whole_number(std::string_view name, int64_t least, int64_t most) const;

  // Whether one of the program's own flags was given.
  bool flag(std::string_view name) const { return option(name) == "yes"; }

  // The optimizer that the flags ask for (--optimizer, --lr, ...); `otherwise` is the program's
  // own choice for what they leave open. --scale-lr is applied, and said.
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                          OptimizerOptions otherwise) const;
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(torch::nn::Module& model,
                                                          OptimizerOptions otherwise) const;

  // The strategy that -s names, for a loop of one's own; Trainer makes its own.
  std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options = {}) const;

  // Whether --verify-strategies was given. Trainer::fit obeys by itself; a loop of one's own calls
  // verify_strategies() then.
  bool wants_verification() const;

  // Whether the user wants activations to be computed again in backward instead of kept
  // (--recompute); a model that offers it calls lockstep::recompute() around its blocks. A program
  // that never asks is told so when the flag is given.
  bool recompute() const;

  // `loss` computed in what --precision names, for a loop of one's own; Trainer does it by itself.
  // Throws an Error where libtorch cannot on this device.
  LossFunction in_precision(const LossFunction& loss) const;

  // Prints a line on stdout, once for the whole gang.
  void say(const std::string& line) const;

  // Whether somebody wants this run to end (SIGTERM, SIGINT) during Trainer::fit. Each worker
  // learns it by itself; Trainer makes the gang agree on the step. Outside fit a signal ends the
  // process.
  bool stop_requested() const;

  // What the flags say; for Trainer.
  const train::Flags& flags() const;
  train::SessionParts& parts() const { return *parts_; }

 private:
  std::unique_ptr<train::SessionParts> parts_;
};

}  // namespace lockstep

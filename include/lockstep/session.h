// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/optimizer.h"
#include "lockstep/strategy.h"

// What a training program describes and receives: its own options, and the view of one worker.
//
//   const lockstep::Program program{
//       .about = "Train a digit classifier",
//       .options = {{.name = "--net", .value = "cnn", .help = "Network"}}};
//   return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
//     const auto net = lockstep::digit_net(session.option("--net"));
//     ...
//   });
namespace lockstep {

// An option of one training program, in addition to the options that every program has. `help` is
// a phrase for --help; the choices and the default are appended to it.
//
//   {.name = "--net", .value = "cnn", .help = "Network", .choices = {"cnn", "mlp"}}
struct ProgramOption {
  std::string name;   // "--net"
  std::string value;  // the default; "no" declares a flag without value, which is "yes" when given
  std::string help;
  std::vector<std::string> choices = {};  // allowed values; empty: any text
};

// The description of a training program, for run().
struct Program {
  std::string about;  // one sentence for --help
  std::vector<ProgramOption> options = {};
};

// The view of one worker of its run: rank, device, directories and options.
//
//   [](lockstep::Session& session) {
//     const auto net = lockstep::digit_net(session.option("--net"));
//     const auto sgd = session.make_optimizer(*net, {.name = "sgd", .lr = 0.01});
//     lockstep::Trainer trainer(session, {.epochs = 2});
//     ...
//     session.say("done");
//   }
//
// run() creates the Session, joins the process group, calls the program's body and leaves the
// process group afterwards. A Session exists until the body returns, and so do the references that
// its methods return. Use it from one thread.
class Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // The rank of this worker, 0 <= rank() < world_size(), and the number of workers of the run.
  int rank() const { return communicator().rank(); }
  int world_size() const { return communicator().size(); }

  // The process group of all workers of the run. Valid as long as the Session.
  Communicator& communicator() const;

  // The CPU, or the GPU of this worker (--device).
  torch::Device device() const;

  // The directory of the data sets: --data-dir, otherwise LOCKSTEP_DATA_DIR, otherwise ./data.
  const std::filesystem::path& data_dir() const;

  // The run directory, with events and checkpoints; the same on all workers.
  const std::filesystem::path& run_dir() const;

  // Returns the value of an option of the program, or its default. `name` must be one of
  // Program::options, with the leading dashes.
  const std::string& option(std::string_view name) const;

  // Returns the value of an option as a finite number in [minimum, maximum]. Throws an Error that
  // quotes the value if it is not such a number.
  double number(std::string_view name,
                double minimum = std::numeric_limits<double>::lowest(),
                double maximum = std::numeric_limits<double>::max()) const;

  // Like number(), for an integer.
  int64_t whole_number(std::string_view name, int64_t minimum, int64_t maximum) const;

  // Whether a flag of the program was given.
  bool flag(std::string_view name) const { return option(name) == "yes"; }

  // Creates the optimizer that the command line selects (--optimizer, --lr, ...). `defaults` holds
  // the program's values for everything that the command line leaves open. Applies --scale-lr and
  // logs the resulting learning rate. Throws an Error for options that do not apply to the
  // optimizer.
  //
  // The overload for a model creates two parameter groups: lockstep::make_optimizer().
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                          OptimizerOptions defaults) const;
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(torch::nn::Module& model,
                                                          OptimizerOptions defaults) const;

  // Creates the strategy that -s selects, for a custom training loop; the Trainer creates its own.
  // Throws an Error if the command line contains an option that only the Trainer implements. The
  // strategy must not outlive the Session.
  std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options = {}) const;

  // Whether --verify-strategies was given. Trainer::fit handles it; a custom training loop must
  // call verify_strategies() in this case.
  bool wants_verification() const;

  // Whether activations are to be recomputed in backward instead of stored (--recompute). A model
  // that supports it calls lockstep::recompute() around its blocks. If --recompute is given and a
  // program never calls this method, Trainer::fit throws an Error; a custom loop gets a warning.
  bool recompute() const;

  // Where JPEG files are decoded: auto, cpu or gpu (--jpeg), for ImageOptions::jpeg. If --jpeg gpu
  // is given and a program never calls this method, Trainer::fit throws an Error.
  const std::string& jpeg() const;

  // Returns `loss` computed in the precision of --precision, for a custom training loop; the
  // Trainer does this itself. Throws an Error if libtorch does not support the precision on
  // device().
  LossFunction in_precision(const LossFunction& loss) const;

  // Prints a line on stdout, on rank 0 only.
  void say(const std::string& line) const;

  // Whether a signal (SIGTERM, SIGINT) has requested the end of the run during Trainer::fit. The
  // answer can differ between workers; the Trainer makes all workers stop after the same step.
  // Outside of fit, a signal ends the process.
  bool stop_requested() const;

 private:
  struct Parts;
  friend struct SessionAccess;  // for run() and the Trainer; not part of the public interface

  explicit Session(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep

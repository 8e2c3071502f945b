// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <utility>
#include <vector>

#include "lockstep/error.h"

// Weights and training state on disk. docs/checkpoint.md describes the file formats.
//
// All functions and classes here concern a single process. The Trainer decides which rank writes
// which part and ensures that all ranks resume from the same checkpoint; a program that uses the
// Trainer rarely needs more than load_weights() and apply_model():
//
//   apply_model(*net, load_weights("resnet50.pt"), "resnet50.pt");
//
// The free functions keep no state. Concurrent calls are safe if they use different files, models
// and optimizers.
namespace lockstep {

// Tensors by name, in order. Python calls this a state dict.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// ---- files that Python reads and writes ------------------------------------------------------

// Writes a dict of tensors that Python's torch.load reads, also with weights_only=True. Replaces
// `file` atomically. On failure, throws Error (Io) and keeps the old file.
void save_weights(const std::filesystem::path& file, const NamedTensors& weights);

// Returns the tensors of a file that save_weights(), Python's torch.save or safetensors wrote.
// The tensors are on the CPU. If a file of torch.save contains more than weights, `entry` names
// the dict that holds them, for example "model".
//
// Throws an Error with the byte offset if the file is damaged, or if it contains anything other
// than plain values and tensors. Loading a file never executes code from it.
NamedTensors load_weights(const std::filesystem::path& file, std::string_view entry = "");

// Like save_weights() and load_weights(), for any tree of dicts, lists, tuples, strings, numbers,
// None and tensors, for example Python's optimizer.state_dict(). Dicts keep their order.
void save_value(const std::filesystem::path& file, const c10::IValue& value);
c10::IValue load_value(const std::filesystem::path& file);

// ---- model and optimizer ---------------------------------------------------------------------

// Returns the parameters and buffers themselves (not copies), with the names and in the order
// that Python's state_dict() uses.
NamedTensors collect_model(const torch::nn::Module& model);

// Copies `weights` into the parameters and buffers of the model, on any device. `source` is the
// file of the weights and is used in messages only.
//
// Throws Error (Usage) if a name, shape or dtype differs, and names the first difference. The
// model is then unchanged.
void apply_model(torch::nn::Module& model, const NamedTensors& weights, std::string_view source);

// Returns the type of the optimizer, the options of its parameter groups and the state of each
// parameter. Parameters are identified by the names in `parameters`, for example the result of
// collect_model(). Supports SGD, Adam, AdamW, Lamb and Adagrad; throws Error (Usage) for others.
c10::IValue collect_optimizer(const torch::optim::Optimizer& optimizer,
                              const NamedTensors& parameters);

// Restores a result of collect_optimizer(). Throws Error (Usage) if `state` belongs to another
// type of optimizer or to other parameters. The optimizer is then unchanged.
void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const c10::IValue& state,
                     std::string_view source);

// ---- pieces ----------------------------------------------------------------------------------

// A contiguous range of a tensor: the elements [offset, offset + values.numel()) of the tensor
// `name`, flattened in row-major order.
//
// The state of a training is a set of pieces. The pieces of all workers together contain every
// element of every tensor exactly once. NAME is the name of a parameter as in collect_model():
//
//   model.NAME            a parameter or buffer, in the precision in which it is updated
//   optimizer.NAME.KEY    optimizer state of a parameter (exp_avg, momentum_buffer); a number
//                         such as step is a tensor without dimensions
//   ema.NAME              the moving average of a weight
struct TensorPiece {
  std::string name;
  std::vector<int64_t> shape;  // of the entire tensor
  int64_t offset = 0;
  torch::Tensor values;  // on any device; its own shape is irrelevant
};

// Returns each tensor as one piece, with `prefix` in front of its name.
std::vector<TensorPiece> as_pieces(std::string_view prefix, const NamedTensors& tensors);

// Read access to all tensors of a checkpoint, from which a Strategy restores its state. It does
// not matter which worker wrote which piece, or how many workers there were. Only the requested
// ranges are read.
//
//   torch::Tensor shard = torch::empty({count});
//   source.read("model.fc1.weight", offset, shard);
//
// One thread uses a PieceSource.
class PieceSource {
 public:
  virtual ~PieceSource() = default;

  virtual std::vector<std::string> names() const = 0;  // in alphabetical order
  virtual bool has(std::string_view name) const = 0;

  // Shape and type of the entire tensor. Both throw Error (Usage) if there is no such tensor.
  virtual std::vector<int64_t> shape(std::string_view name) const = 0;
  virtual torch::ScalarType dtype(std::string_view name) const = 0;

  // Fills `into` with the elements [offset, offset + into.numel()) of the flattened tensor and
  // converts them to the type of `into`, which can have any shape, device and memory format.
  // Throws Error (Usage) if there is no such tensor or if it has too few elements.
  virtual void read(std::string_view name, int64_t offset, torch::Tensor& into) const = 0;

  // The directory of the checkpoint, for messages.
  virtual std::string description() const = 0;
};

// Returns the state of each parameter that has taken a step, named optimizer.NAME.KEY. The pieces
// are views of the state, not copies, where possible.
std::vector<TensorPiece> optimizer_pieces(const torch::optim::Optimizer& optimizer,
                                          const NamedTensors& parameters);

// Returns the type of the optimizer and the options and parameter names of its groups as JSON.
// The text does not depend on how the optimizer state is partitioned among workers.
std::string describe_optimizer(const torch::optim::Optimizer& optimizer,
                               const NamedTensors& parameters);

// Restore a model and an optimizer from `source`, regardless of the strategy and world size that
// wrote it. `description` is a result of describe_optimizer(). Both throw Error (Usage) if
// something differs, and name the first difference. Nothing is changed in this case.
void apply_model(torch::nn::Module& model, const PieceSource& source);
void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const std::string& description,
                     const PieceSource& source);

// Restores only the options of the parameter groups, for a Strategy that keeps the optimizer
// state itself. `own` is the description of this optimizer from before the Strategy adopted it.
// Throws Error (Usage) if the two descriptions belong to different optimizers.
void apply_optimizer_options(torch::optim::Optimizer& optimizer,
                             const std::string& own,
                             const std::string& description,
                             std::string_view source);

// ---- checkpoint directories ------------------------------------------------------------------

// Names of the usual parts of a checkpoint.
inline constexpr std::string_view kModelPart = "model.pt";
inline constexpr std::string_view kOptimizerPart = "optimizer.pt";
inline constexpr std::string_view kRandomPart = "rng.pt";
inline constexpr std::string_view kEmaPart = "ema.pt";

// The position of the training that a checkpoint records.
struct CheckpointState {
  int64_t step = 0;           // completed optimizer steps
  int64_t epoch = 0;          // completed epochs
  int64_t step_in_epoch = 0;  // completed steps of the current epoch
  uint64_t seed = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  std::map<std::string, double> metrics = {};     // at this step; Retention compares them
  std::map<std::string, std::string> notes = {};  // additional values of the caller
  std::string optimizer = {};                     // describe_optimizer(); empty: no optimizer

  bool operator==(const CheckpointState&) const = default;
};

// A complete checkpoint on disk whose content has not been verified.
struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path directory;

  bool operator==(const CheckpointEntry&) const = default;
};

// Collects the parts of one checkpoint and commits them atomically: after a crash at any time,
// the checkpoint is either complete or absent.
//
//   CheckpointWriter writer("runs/a/checkpoints", {.step = 100});
//   writer.add_tensors(kModelPart, collect_model(*net));
//   const auto directory = writer.commit();
//
// Use a writer from one thread. Only one process can write below a root directory at any time.
class CheckpointWriter {
 public:
  // commit() creates `root` if it does not exist.
  CheckpointWriter(std::filesystem::path root, CheckpointState state);

  // Add a part. The content is copied: tensors can change as soon as the call returns. `part` is
  // a file name without directories and must be unique within the checkpoint.
  void add_tensors(std::string_view part, const NamedTensors& tensors);
  void add_value(std::string_view part, const c10::IValue& value);
  void add_text(std::string_view part, std::string_view text);

  // Writes ROOT/step-NNNNNNNN and returns its path. Replaces an existing checkpoint of the same
  // step. Checkpoints that were complete before stay complete if this process is killed.
  //
  // Throws Error (Io) if a write fails and then leaves no files behind. Also removes incomplete
  // checkpoints of writers that have died.
  std::filesystem::path commit();

  uint64_t bytes() const;  // size of the parts added so far

 private:
  void add(std::string_view part, std::string bytes);

  std::filesystem::path root_;
  CheckpointState state_;
  std::vector<std::pair<std::string, std::string>> parts_;
};

// Reads a complete checkpoint and verifies the size and checksum of every file.
//
//   CheckpointReader reader("runs/a/checkpoints/step-00000100");
//   apply_model(*net, *reader.pieces());
//
// Concurrent const calls are safe. The directory must not be deleted while the reader, or a
// PieceSource from it, is in use.
class CheckpointReader {
 public:
  // Reads and verifies all files. Throws Error (Io) with the name of the damaged file, or Error
  // (Usage) if the format is newer than this program.
  explicit CheckpointReader(std::filesystem::path directory);

  // Opens a checkpoint that another worker has already verified; reads only what is requested.
  static CheckpointReader verified(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointState& state() const { return state_; }
  bool has(std::string_view part) const;

  // Return the content or the path of a part. All throw Error (Usage) if there is no such part.
  NamedTensors tensors(std::string_view part) const;
  c10::IValue value(std::string_view part) const;
  std::string text(std::string_view part) const;
  std::filesystem::path path(std::string_view part) const;

  // Returns all tensors of the checkpoint as pieces, for every format version. The result can
  // outlive this reader. Throws Error (Io) with the name of the tensor and the first element that
  // no worker, or more than one worker, has written.
  std::unique_ptr<PieceSource> pieces() const;

 private:
  CheckpointReader(std::filesystem::path directory, bool verify);

  std::filesystem::path directory_;
  CheckpointState state_;
  std::vector<std::string> parts_;
};

// Receives the error of each damaged checkpoint that find_latest_checkpoint() skips.
using DamageReport = std::function<void(const Error& damage)>;

// Returns the newest checkpoint below `root` that is complete and undamaged, or nothing if there
// is none. Calls `on_damaged` for each damaged checkpoint that is newer; without `on_damaged`,
// logs a warning.
std::optional<CheckpointReader> find_latest_checkpoint(const std::filesystem::path& root,
                                                       const DamageReport& on_damaged = {});

// Returns the complete checkpoints below `root`, oldest first. The result is empty if `root` does
// not exist.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& root);

// Selects the checkpoints to keep. A checkpoint is kept if at least one rule applies.
struct Retention {
  int keep_last = 3;                            // keep the newest; at least 1
  std::optional<std::string> best_metric = {};  // keep the best by this key of `metrics`
  bool best_is_max = true;                      // direction of best_metric; ties: the earlier one
  std::chrono::seconds keep_for = {};           // keep checkpoints younger than this
};

// Deletes the checkpoints that `retention` does not keep and returns them. Makes ROOT/best a link
// to the best checkpoint.
//
// Deletes nothing unless one of the remaining checkpoints has been verified, so that the only
// undamaged checkpoint is never lost. A partially deleted checkpoint never appears complete.
std::vector<CheckpointEntry> prune_checkpoints(const std::filesystem::path& root,
                                               const Retention& retention);

}  // namespace lockstep

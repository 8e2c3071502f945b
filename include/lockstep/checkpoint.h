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
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "lockstep/error.h"

// Weights and training state on disk. Everything here concerns one process; which rank writes, and
// that all ranks resume from the same checkpoint, is the Trainer's business. docs/checkpoint.md has
// the format.
namespace lockstep {

// Tensors by name, in order: what Python calls a state dict.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// ---- files that Python reads and writes ------------------------------------------------------

// Replaces `file` atomically by a dict of tensors that Python's torch.load reads, also with
// weights_only=True. Throws Error (Io) and leaves the old file where it cannot be written.
void save_weights(const std::filesystem::path& file, const NamedTensors& weights);

// The dict of tensors in a file of save_weights or of Python's torch.save, or the tensors of a
// .safetensors. Where a file of torch.save holds more than weights, `entry` names the dict that is
// wanted ("model"). Tensors are on the CPU.
// Throws Error with the byte offset where the file is damaged or holds anything but plain values
// and tensors; nothing in a file can run code.
NamedTensors load_weights(const std::filesystem::path& file, std::string_view entry = "");

// The same for any tree of dicts, lists, tuples, strings, numbers, None and tensors, for example
// Python's optimizer.state_dict(). Dicts keep their order.
void save_value(const std::filesystem::path& file, const c10::IValue& value);
c10::IValue load_value(const std::filesystem::path& file);

// ---- model and optimizer ---------------------------------------------------------------------

// The parameters and buffers themselves (not copies), with Python's names in Python's order.
NamedTensors collect_model(const torch::nn::Module& model);

// Copies `weights` into the model, whatever its device. Throws Error (Usage), and changes nothing,
// where a name, shape or dtype differs; it names the first difference and `source`, the file that
// the weights are from.
void apply_model(torch::nn::Module& model, const NamedTensors& weights, std::string_view source);

// The optimizer's kind, group options and per-parameter state, by the names of `parameters`
// (collect_model's result will do). Knows SGD, Adam and AdamW; throws Error (Usage) for others.
c10::IValue collect_optimizer(const torch::optim::Optimizer& optimizer,
                              const NamedTensors& parameters);

// The way back. Throws Error (Usage), and changes nothing, where `state` is of another kind of
// optimizer or of other parameters.
void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const c10::IValue& state,
                     std::string_view source);

// ---- pieces ----------------------------------------------------------------------------------

// A stretch of a tensor: elements [offset, offset + values.numel()) of the tensor `name`, laid out
// row by row. The state of a training is a set of pieces; the workers' pieces together hold every
// element of every tensor exactly once. Names are `model.NAME` for parameters and buffers (in the
// precision in which they are updated), `optimizer.NAME.KEY` for what the optimizer keeps for a
// parameter (exp_avg, momentum_buffer; a number such as step is a tensor without dimensions), and
// `ema.NAME` for averaged weights; NAME is the parameter's name as in collect_model.
struct TensorPiece {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t offset = 0;
  torch::Tensor values;  // any device; its own shape does not matter
};

// Whole tensors as pieces.
std::vector<TensorPiece> as_pieces(std::string_view prefix, const NamedTensors& tensors);

// Where a Strategy gets its state back from. Has all tensors of a checkpoint, whoever wrote which
// part of them, and reads only what it is asked for.
class PieceSource {
 public:
  virtual ~PieceSource() = default;

  virtual std::vector<std::string> names() const = 0;  // in the order of their names
  virtual bool has(std::string_view name) const = 0;

  // Each throws Error (Usage) where there is no such tensor.
  virtual std::vector<int64_t> shape(std::string_view name) const = 0;
  virtual torch::ScalarType dtype(std::string_view name) const = 0;

  // Fills `into`, of any shape, device and memory format, with elements [offset, offset +
  // into.numel()) of the flattened tensor; converts to the type of `into`. Throws Error (Usage)
  // where the tensor ends before that.
  virtual void read(std::string_view name, int64_t offset, torch::Tensor& into) const = 0;

  // What messages call it: the checkpoint's directory.
  virtual std::string description() const = 0;
};

// What the optimizer keeps for each parameter that has taken a step, as optimizer.NAME.KEY.
std::vector<TensorPiece> optimizer_pieces(const torch::optim::Optimizer& optimizer,
                                          const NamedTensors& parameters);

// The optimizer's kind, and the options and parameter names of its groups, as JSON; the same for
// every way of sharing out its state.
std::string describe_optimizer(const torch::optim::Optimizer& optimizer,
                               const NamedTensors& parameters);

// The way back, whoever wrote `source`. Each throws Error (Usage), and changes nothing, where
// something differs, and names the first difference. `description` is what describe_optimizer gave.
void apply_model(torch::nn::Module& model, const PieceSource& source);
void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const std::string& description,
                     const PieceSource& source);

// Sets the options of the groups alone, for a Strategy that keeps the state itself. `own` described
// this optimizer before the Strategy took it.
void apply_optimizer_options(torch::optim::Optimizer& optimizer,
                             const std::string& own,
                             const std::string& description,
                             std::string_view source);

// ---- checkpoint directories ------------------------------------------------------------------

// The usual parts of a checkpoint.
inline constexpr std::string_view kModelPart = "model.pt";
inline constexpr std::string_view kOptimizerPart = "optimizer.pt";
inline constexpr std::string_view kRandomPart = "rng.pt";
inline constexpr std::string_view kEmaPart = "ema.pt";

// Where training stood.
struct CheckpointState {
  int64_t step = 0;           // optimizer steps done
  int64_t epoch = 0;          // epochs finished
  int64_t step_in_epoch = 0;  // steps done of the epoch that is under way
  uint64_t seed = 0;
  int64_t global_batch = 0;
  int world_size = 1;
  std::map<std::string, double> metrics = {};     // as of this step; Retention looks here
  std::map<std::string, std::string> notes = {};  // whatever else a caller wants back
  std::string optimizer = {};                     // describe_optimizer(); empty: none

  bool operator==(const CheckpointState&) const = default;
};

// A complete checkpoint on disk; its content has not been looked at.
struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path directory;

  bool operator==(const CheckpointEntry&) const = default;
};

// Collects the parts of one checkpoint and commits them together, or not at all. One thread uses a
// writer; one process writes under a root at a time.
class CheckpointWriter {
 public:
  // `root` is made if it is missing, at commit.
  CheckpointWriter(std::filesystem::path root, CheckpointState state);

  // Each takes a snapshot: the tensors may change as soon as the call returns. `part` is a plain
  // file name, given once.
  void add_tensors(std::string_view part, const NamedTensors& tensors);
  void add_value(std::string_view part, const c10::IValue& value);
  void add_text(std::string_view part, std::string_view text);

  // Writes ROOT/step-NNNNNNNN, replacing one of the same step; returns its path. What was complete
  // before stays so if this process is killed at any instant. Throws Error (Io) where a byte could
  // not be written; then no trace is left. Removes what writers that died have left behind.
  std::filesystem::path commit();

  uint64_t bytes() const;  // collected so far

 private:
  void add(std::string_view part, std::string bytes);

  std::filesystem::path root_;
  CheckpointState state_;
  std::vector<std::pair<std::string, std::string>> parts_;
};

// A complete checkpoint whose every file has the size and checksum that it was written with.
class CheckpointReader {
 public:
  // Reads everything once, to verify it. Throws Error (Io) that names the damaged file; Error
  // (Usage) where the format is newer than this program.
  explicit CheckpointReader(std::filesystem::path directory);

  // One that another worker has verified: reads only what it is asked for.
  static CheckpointReader verified(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointState& state() const { return state_; }
  bool has(std::string_view part) const;

  // Each throws Error (Usage) where the checkpoint has no such part.
  NamedTensors tensors(std::string_view part) const;
  c10::IValue value(std::string_view part) const;
  std::string text(std::string_view part) const;
  std::filesystem::path path(std::string_view part) const;

  // All tensors of the checkpoint as pieces, whatever its format; may outlive this reader. Throws
  // Error (Io) that names the tensor and the first element that no worker, or more than one, wrote.
  std::unique_ptr<PieceSource> pieces() const;

 private:
  CheckpointReader(std::filesystem::path directory, bool verify);

  std::filesystem::path directory_;
  CheckpointState state_;
  std::vector<std::string> parts_;
};

// Told about each damaged checkpoint that was passed over.
using DamageReport = std::function<void(const Error& damage)>;

// The newest checkpoint under `root` that is complete and undamaged, if there is one. Each damaged
// one on the way goes to `on_damaged`, or to the log as a warning where none is given.
std::optional<CheckpointReader> find_latest_checkpoint(const std::filesystem::path& root,
                                                       const DamageReport& on_damaged = {});

// The complete checkpoints under `root`, oldest first; none where `root` does not exist.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& root);

// Which checkpoints stay.
struct Retention {
  int keep_last = 3;                            // at least 1
  std::optional<std::string> best_metric = {};  // also keeps the best by this key of `metrics`
  bool best_is_max = true;                      // of equals, the earlier is the better
  std::chrono::seconds keep_for = {};           // also keeps what is younger than this
};

// Deletes the checkpoints that `retention` does not keep and returns them; makes ROOT/best a link
// to the best. Deletes nothing unless one of those that stay has been verified, so that the only
// good checkpoint is never lost; nothing half deleted ever looks complete.
std::vector<CheckpointEntry> prune_checkpoints(const std::filesystem::path& root,
                                               const Retention& retention);

}  // namespace lockstep

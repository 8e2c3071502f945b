// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

namespace lockstep {

namespace comm {
class CallRecord;
}

enum class Reduction { Sum, Max, Min };

// A stretch in which this worker is with all others in something that takes more than one call, or
// goes past the Communicator, such as the exchange of gradients during backward. Whoever looks for
// workers that hang says these words. Lives on one thread; an inner one says nothing.
class CallScope {
 public:
  explicit CallScope(comm::CallRecord* record);
  CallScope(CallScope&& other) noexcept;
  CallScope& operator=(CallScope&&) = delete;
  ~CallScope();

 private:
  comm::CallRecord* record_;  // null: nothing to leave
  int exceptions_;
};

// What the workers of a gang say to each other: collectives over one transport.
//
// Every worker makes the same calls in the same order, with tensors of the same shape and type. A
// call returns when this worker's result is there; for tensors on device(), when it is queued on
// the current stream, as any operation on them is. Results are bit-identical on all workers. A lost
// peer is an Error with ExitCode::TryAgain that names the call. One thread at a time may call.
class Communicator {
 public:
  Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The transport: "solo", "threads", "shared-memory", "gloo", "node-first", "mpi" or "nccl".
  virtual std::string_view kind() const = 0;

  // The GPU whose tensors travel as they are. Those of any other are brought through main memory.
  virtual std::optional<torch::Device> device() const { return std::nullopt; }

  // Replaces `tensor` by the reduction over the gang.
  void all_reduce(torch::Tensor& tensor, Reduction reduction = Reduction::Sum);

  // Replaces `tensor` by that of worker `root`.
  void broadcast(torch::Tensor& tensor, int root = 0);

  // Broadcasts many tensors of any types in few messages.
  void broadcast(std::vector<torch::Tensor> tensors, int root = 0);

  // Every worker's tensor, stacked along a new first dimension in the order of ranks.
  torch::Tensor all_gather(const torch::Tensor& tensor);

  // The same into `output`, which has room for size() x input.numel() elements and no memory in
  // common with `input`.
  void all_gather_into(torch::Tensor& output, const torch::Tensor& input);

  // `tensor` has size() slices along its first dimension; returns the sum over the gang of slice
  // rank().
  torch::Tensor reduce_scatter(const torch::Tensor& tensor);

  // Returns when all workers have called it. `what` is for messages, and lives for ever; all pass
  // the same.
  void barrier(const char* what = "barrier");

  // Says what the calls until the end of the scope are for: a text that lives for ever, and what
  // tells this one from others, such as names of tensors.
  [[nodiscard]] CallScope enter(const char* what, std::string_view detail = {});

  // What this worker does between calls, in a word that lives for ever: "forward", "evaluation".
  void set_phase(const char* phase);

  // Where this worker is in its calls; any thread may read it, also when this object is gone.
  const std::shared_ptr<comm::CallRecord>& call_record() const { return calls_; }

  // The first `count` workers as a gang of their own; null on the others. All workers call it. Its
  // calls may run beside those of this one, on another thread; with `count` == size() it is a
  // second channel between the same workers. It may not outlive this one.
  std::unique_ptr<Communicator> subset(int count);

  // Whether a call is worth a thread of its own, beside the computation: true where it mostly waits
  // for a network.
  virtual bool overlaps() const { return false; }

  // The bytes of worker `root`, whatever the others pass.
  std::string broadcast_bytes(std::string bytes, int root = 0);

  // The value of worker `root`: numbers, strings, lists, dictionaries, tensors.
  torch::IValue broadcast_object(const torch::IValue& value, int root = 0);

  // Every worker's bytes, in the order of ranks.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

 protected:
  // The transport's part. Tensors are contiguous, dense, all of a call on the CPU or all on
  // device(); all_reduce and reduce_scatter see float, double, half, bfloat16, int32, int64 or
  // uint8 only. `output` is flat.
  virtual void do_all_reduce(torch::Tensor& tensor, Reduction reduction) = 0;
  virtual void do_broadcast(torch::Tensor& tensor, int root) = 0;
  virtual void do_all_gather(torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void do_barrier() = 0;
  virtual std::unique_ptr<Communicator> do_subset(int count) = 0;

  // Whether the transport itself finds out that workers make different calls, and throws an Error
  // that names them.
  virtual bool notices_different_calls() const { return true; }

 private:
  void compare_calls();

  std::shared_ptr<comm::CallRecord> calls_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/types.h>
#include <vector>

// The collectives of a process group: operations that all workers perform together.
//
//   Communicator& comm = session.communicator();
//   torch::Tensor sum = torch::tensor({local_count}, torch::kFloat64);
//   comm.all_reduce(sum);                      // the total, on every worker
//   comm.broadcast(model.buffers());           // rank 0's buffers, on every worker
namespace lockstep {

class Communicator;

// How all_reduce() combines the tensors of the workers, element by element.
enum class Reduction { Sum, Max, Min };

// Marks an operation that all workers perform together and that consists of several collectives,
// or that bypasses the Communicator, such as the exchange of gradients during backward. While the
// scope exists, stall warnings name the operation instead of a single collective.
//
//   {
//     const CallScope scope = communicator.enter("the exchange of gradients");
//     ...
//   }
//
// Communicator::enter() creates it. Create and destroy a scope on the same thread, and before the
// Communicator is destroyed. A scope inside another one has no effect.
class CallScope {
 public:
  CallScope(CallScope&& other) noexcept;
  CallScope& operator=(CallScope&&) = delete;
  ~CallScope();

 private:
  friend class Communicator;
  explicit CallScope(Communicator* communicator);

  Communicator* communicator_;  // null: this scope is nested or moved from
  int exceptions_;
};

// A process group over one backend. Session::communicator() is the one of all workers.
//
// Every worker must make the same calls in the same order, with tensors of the same shape and
// type. A call returns when the result of this worker is available. For tensors on device(), it
// returns when the operation is queued on the current stream, like any other GPU operation.
// Results are bit-identical on all workers.
//
// If a peer is lost, a call throws an Error with ExitCode::TryAgain that names the call. Backends
// that detect different calls throw an Error that names them.
//
// Only one thread can call at any time. Use subset(size()) for a second channel on another thread.
// The Session owns its Communicator; references stay valid until the end of the program's body.
class Communicator {
 public:
  Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  // The rank of this worker, 0 <= rank() < size(), and the number of workers. Any thread can call
  // them, as well as kind(), device(), accepts() and overlaps().
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The backend: "solo", "threads", "shared-memory", "gloo", "node-first", "mpi" or "nccl".
  virtual std::string_view kind() const = 0;

  // The GPU whose tensors are exchanged directly, on the current stream, if there is one.
  virtual std::optional<torch::Device> device() const { return std::nullopt; }

  // Whether tensors on `where` are passed to the backend as they are. Others are copied through
  // host memory.
  virtual bool accepts(torch::Device where) const { return where.is_cpu() || where == device(); }

  // Replaces `tensor` on every worker by the reduction over all workers. `tensor` must be dense.
  // It can have any type, device and memory format.
  void all_reduce(torch::Tensor& tensor, Reduction reduction = Reduction::Sum);

  // Replaces `tensor` by the tensor of rank `root`. Requires 0 <= root < size().
  void broadcast(torch::Tensor& tensor, int root = 0);

  // Like broadcast(), for many tensors of any types; uses as few messages as possible.
  void broadcast(std::vector<torch::Tensor> tensors, int root = 0);

  // Returns the tensors of all workers, stacked along a new first dimension in rank order.
  torch::Tensor all_gather(const torch::Tensor& tensor);

  // Like all_gather(), into `output`. `output` must have size() * input.numel() elements and must
  // not share memory with `input`.
  void all_gather_into(torch::Tensor& output, const torch::Tensor& input);

  // Returns slice rank() of the sum over all workers. `tensor` must have size() slices along its
  // first dimension; throws an Error (Bug) otherwise.
  torch::Tensor reduce_scatter(const torch::Tensor& tensor);

  // Returns when all workers have called it. `what` appears in messages. It must have static
  // lifetime and must be the same on all workers.
  void barrier(const char* what = "barrier");

  // Names the operation to which the calls belong until the scope ends. `what` must have static
  // lifetime. `detail` distinguishes this operation from similar ones, for example by the names of
  // its tensors; it is copied.
  [[nodiscard]] CallScope enter(const char* what, std::string_view detail = {});

  // Names the activity of this worker between calls: "forward", "evaluation". Stall warnings show
  // it. `phase` must have static lifetime. Call it from the thread that trains.
  void set_phase(const char* phase);

  // Returns a process group of the first `count` workers, or null on the other workers. All workers
  // must call it. The calls of the result are independent of this Communicator and can run
  // concurrently on another thread. With `count` == size(), the result is a second channel between
  // the same workers. The result must not outlive this Communicator.
  std::unique_ptr<Communicator> subset(int count);

  // Whether it is worth running calls on a separate thread in parallel with the computation. True
  // for backends that mostly wait for a network.
  virtual bool overlaps() const { return false; }

  // Returns the bytes of rank `root`. The argument of the other ranks is ignored.
  std::string broadcast_bytes(std::string bytes, int root = 0);

  // Returns the value of rank `root`: numbers, strings, lists, dictionaries or tensors.
  torch::IValue broadcast_object(const torch::IValue& value, int root = 0);

  // Returns the bytes of every worker in rank order. Lengths can differ.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);

 protected:
  // The implementation of a backend, for subclasses. Each call returns or throws as described for
  // the class. All tensors are dense and contiguous. The tensors of a call are all on one device
  // that accepts() names. do_all_reduce() and do_reduce_scatter() receive only float, double, half,
  // bfloat16, int32, int64 or uint8. `output` is one-dimensional.
  virtual void do_all_reduce(torch::Tensor& tensor, Reduction reduction) = 0;
  virtual void do_broadcast(torch::Tensor& tensor, int root) = 0;
  virtual void do_all_gather(torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual void do_barrier() = 0;
  virtual std::unique_ptr<Communicator> do_subset(int count) = 0;

  // Whether the backend itself detects that workers make different calls and throws an Error that
  // names them. If not, the Communicator compares the first calls of the workers before it makes
  // them.
  virtual bool notices_different_calls() const { return true; }

 private:
  struct Calls;
  friend class CallScope;
  friend struct CommunicatorAccess;  // for stall warnings; not part of the public interface

  void compare_calls();

  std::shared_ptr<Calls> calls_;  // the position of this worker in its sequence of calls
};

}  // namespace lockstep

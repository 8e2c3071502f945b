// SPDX-License-Identifier: Apache-2.0
#include "lockstep/communicator.h"

#include <cstring>
#include <exception>
#include <map>
#include <torch/serialize.h>
#include <torch/utils.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/call_signature.h"
#include "training/comm/stall_report.h"

namespace lockstep {
namespace {

bool reduces_natively(torch::ScalarType type) {
  return type == torch::kFloat32 || type == torch::kFloat64 || type == torch::kInt32 ||
         type == torch::kInt64 || type == torch::kUInt8 || type == torch::kHalf ||
         type == torch::kBFloat16;
}

// The tensor in the form that a transport accepts: on a device of the transport, contiguous, and of
// a type that the transport can reduce.
torch::Tensor staged(const Communicator& transport, const torch::Tensor& tensor, bool reduces) {
  const bool must_convert = reduces && !reduces_natively(tensor.scalar_type());
  if (must_convert && tensor.is_complex()) {
    // The conversion below would drop imaginary parts.
    throw Error(ExitCode::Usage, "cannot reduce a tensor of complex numbers")
        .fact("type", c10::toString(tensor.scalar_type()))
        .hint("reduce torch::view_as_real(tensor)");
  }
  const bool may_stay = transport.accepts(tensor.device());
  // Fast path: each operation below takes longer than a small message.
  if (may_stay && tensor.layout() == torch::kStrided && tensor.is_contiguous() &&
      !tensor.requires_grad() && !must_convert) {
    return tensor;
  }
  torch::Tensor plain = tensor.detach();
  plain = (may_stay ? plain : plain.to(torch::kCPU)).contiguous();
  if (must_convert) {
    plain = plain.to(plain.is_floating_point() ? torch::kFloat32 : torch::kInt64);
  }
  return plain;
}

// Copies the result into the tensor of the caller, unless the transport worked on its memory.
void put_back(torch::Tensor& tensor, const torch::Tensor& plain) {
  if (!plain.is_same(tensor) && plain.data_ptr() != tensor.data_ptr()) {
    torch::NoGradGuard no_grad;
    tensor.detach().copy_(plain);
  }
}

torch::Tensor bytes_to_tensor(const std::string& bytes) {
  auto tensor = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string tensor_to_bytes(const torch::Tensor& tensor, int64_t count) {
  return {static_cast<const char*>(tensor.data_ptr()), static_cast<size_t>(count)};
}

// RAII: records one call from begin to end. The number of exceptions is compared with that at
// construction: a call in a destructor during stack unwinding has not failed itself.
class Call {
 public:
  Call(comm::CallRecord& record, const comm::CallWords& words)
      : record_(record), exceptions_(std::uncaught_exceptions()) {
    record_.begin(words);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { record_.end(std::uncaught_exceptions() > exceptions_); }

 private:
  comm::CallRecord& record_;
  int exceptions_;
};

comm::CallWords words_for(const char* what, const torch::Tensor& tensor, int root = -1) {
  return {.what = what, .count = tensor.numel(), .type = tensor.scalar_type(), .root = root};
}

}  // namespace

struct Communicator::Calls : comm::CallRecord {};

std::shared_ptr<comm::CallRecord> CommunicatorAccess::share_calls(
    const Communicator& communicator) {
  return communicator.calls_;
}

comm::CallRecord& CommunicatorAccess::calls(const Communicator& communicator) {
  return *communicator.calls_;
}

CallScope::CallScope(Communicator* communicator)
    : communicator_(communicator), exceptions_(std::uncaught_exceptions()) {}

CallScope::CallScope(CallScope&& other) noexcept
    : communicator_(std::exchange(other.communicator_, nullptr)), exceptions_(other.exceptions_) {}

CallScope::~CallScope() {
  if (communicator_ != nullptr) {
    communicator_->calls_->leave(std::uncaught_exceptions() > exceptions_);
  }
}

Communicator::Communicator() : calls_(std::make_shared<Calls>()) {}

Communicator::~Communicator() = default;

CallScope Communicator::enter(const char* what, std::string_view detail) {
  return CallScope(calls_->enter(what, detail) ? this : nullptr);
}

void Communicator::set_phase(const char* phase) {
  calls_->set_phase(phase);
}

// Gloo, MPI and NCCL do not check that all workers make the same call. A mismatch can hang,
// terminate the process or produce wrong sums. The first calls of a process group are therefore
// announced to all workers before they are executed. The announcement has a fixed size, so it
// matches on all workers even if the calls do not.
void Communicator::compare_calls() {
  constexpr size_t kBytes = 192;
  if (notices_different_calls() || !calls_->is_compared()) {
    return;
  }
  const comm::CallView view = calls_->read();
  comm::Seen mine;
  mine.number = view.number;
  mine.call = view.call.substr(0, kBytes / 3);
  mine.in_call = true;
  mine.is_end = view.call == comm::kEndOfProgram;
  mine.scope = view.scope.substr(0, kBytes / 3);
  std::string text = comm::encode(mine);
  LOCKSTEP_CHECK(text.size() <= kBytes);  // a truncated text would not be decoded, nor compared
  text.resize(kBytes, '\n');
  torch::Tensor all = torch::empty({static_cast<int64_t>(kBytes) * size()}, torch::kUInt8);
  do_all_gather(all, bytes_to_tensor(text));
  const std::string texts = tensor_to_bytes(all, all.numel());
  comm::WorkerViews views;
  for (size_t at = 0; at < texts.size(); at += kBytes) {
    views.push_back(comm::decode(trim(std::string_view(texts).substr(at, kBytes))));
  }
  if (const auto mistake = comm::find_mistake(views)) {
    throw comm::to_error(*mistake);
  }
}

void Communicator::barrier(const char* what) {
  const Call call(*calls_, {.what = what});
  compare_calls();
  do_barrier();
}

// Tensors without elements make no call, on any worker: shapes are equal on all of them.
void Communicator::all_reduce(torch::Tensor& tensor, Reduction reduction) {
  if (tensor.numel() == 0) {
    return;
  }
  const Call call(*calls_, words_for(comm::name_of(reduction), tensor));
  compare_calls();
  torch::Tensor plain = staged(*this, tensor, true);
  do_all_reduce(plain, reduction);
  put_back(tensor, plain);
}

void Communicator::broadcast(torch::Tensor& tensor, int root) {
  LOCKSTEP_CHECK(root >= 0 && root < size());
  if (tensor.numel() == 0) {
    return;
  }
  const Call call(*calls_, words_for("broadcast", tensor, root));
  compare_calls();
  torch::Tensor plain = staged(*this, tensor, false);
  do_broadcast(plain, root);
  put_back(tensor, plain);
}

// Tensors of one type and device are sent as one message: a model has hundreds of small tensors,
// and a message costs more than their bytes. The map orders the messages by kind, equally on all
// workers. The index of a GPU is not part of the kind, because it differs between workers.
void Communicator::broadcast(std::vector<torch::Tensor> tensors, int root) {
  if (size() == 1) {
    return;
  }
  torch::NoGradGuard no_grad;
  using Kind = std::pair<torch::ScalarType, bool>;  // second: whether the tensor is on the CPU
  std::map<Kind, std::vector<torch::Tensor>> by_kind;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.numel() > 0) {
      by_kind[{tensor.scalar_type(), tensor.device().is_cpu()}].push_back(tensor.detach());
    }
  }
  for (auto& [kind, group] : by_kind) {
    std::vector<torch::Tensor> flat;
    flat.reserve(group.size());
    for (const torch::Tensor& tensor : group) {
      flat.push_back(tensor.reshape({-1}));
    }
    torch::Tensor all = group.size() == 1 ? flat.front() : torch::cat(flat);
    broadcast(all, root);
    int64_t offset = 0;
    for (torch::Tensor& tensor : group) {
      if (rank() != root || group.size() == 1) {
        tensor.copy_(all.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      }
      offset += tensor.numel();
    }
  }
}

torch::Tensor Communicator::all_gather(const torch::Tensor& tensor) {
  const torch::Tensor plain = staged(*this, tensor, false);
  std::vector<int64_t> shape = plain.sizes().vec();
  shape.insert(shape.begin(), size());
  torch::Tensor output = torch::empty(shape, plain.options());
  if (plain.numel() > 0) {
    const Call call(*calls_, words_for("all-gather", tensor));
    compare_calls();
    torch::Tensor flat = output.view({-1});
    do_all_gather(flat, plain.view({-1}));
  }
  return output.to(tensor.device());
}

void Communicator::all_gather_into(torch::Tensor& output, const torch::Tensor& input) {
  LOCKSTEP_CHECK(output.numel() == input.numel() * size() &&
                 output.scalar_type() == input.scalar_type());
  if (input.numel() == 0) {
    return;
  }
  if (!accepts(output.device()) || !output.is_contiguous()) {
    output.copy_(all_gather(input).view(output.sizes()));
    return;
  }
  const Call call(*calls_, words_for("all-gather", input));
  compare_calls();
  torch::Tensor flat = output.view({-1});
  do_all_gather(flat, staged(*this, input.to(output.device()), false).view({-1}));
}

torch::Tensor Communicator::reduce_scatter(const torch::Tensor& tensor) {
  if (tensor.dim() == 0 || tensor.size(0) != size()) {
    throw Error(ExitCode::Bug, "reduce-scatter needs one slice of the tensor per worker")
        .fact("workers", std::to_string(size()))
        .fact("slices", tensor.dim() == 0 ? "none" : std::to_string(tensor.size(0)));
  }
  const torch::Tensor plain = staged(*this, tensor, true);
  torch::Tensor output = torch::empty(plain.sizes().slice(1), plain.options());
  if (output.numel() > 0) {
    const Call call(*calls_, words_for("reduce-scatter", tensor));
    compare_calls();
    torch::Tensor flat = output.view({-1});
    do_reduce_scatter(flat, plain.view({-1}));
  }
  return output.to(tensor.options());
}

std::unique_ptr<Communicator> Communicator::subset(int count) {
  LOCKSTEP_CHECK(count >= 1 && count <= size());
  const Call call(*calls_, {.what = "creating a subgroup", .count = count});
  compare_calls();
  return do_subset(count);
}

// The length goes first: a broadcast needs a tensor of equal size on every worker. An empty text
// makes only one call, because a broadcast without elements makes none.
std::string Communicator::broadcast_bytes(std::string bytes, int root) {
  if (size() == 1) {
    return bytes;
  }
  torch::Tensor length = torch::full({1}, static_cast<int64_t>(bytes.size()), torch::kInt64);
  broadcast(length, root);
  const auto count = length.item<int64_t>();
  torch::Tensor payload =
      rank() == root ? bytes_to_tensor(bytes) : torch::empty({count}, torch::kUInt8);
  broadcast(payload, root);
  return tensor_to_bytes(payload, count);
}

torch::IValue Communicator::broadcast_object(const torch::IValue& value, int root) {
  if (size() == 1) {
    return value;
  }
  std::string bytes;
  if (rank() == root) {
    const std::vector<char> pickled = torch::pickle_save(value);
    bytes.assign(pickled.begin(), pickled.end());
  }
  bytes = broadcast_bytes(std::move(bytes), root);
  return rank() == root ? value : torch::pickle_load({bytes.begin(), bytes.end()});
}

// Two messages: all-gather needs equal sizes, so the lengths are exchanged first and the texts are
// padded to the longest.
std::vector<std::string> Communicator::all_gather_bytes(const std::string& bytes) {
  const torch::Tensor lengths =
      all_gather(torch::full({1}, static_cast<int64_t>(bytes.size()), torch::kInt64));
  const auto longest = lengths.max().item<int64_t>();
  torch::Tensor padded = torch::zeros({longest}, torch::kUInt8);
  std::memcpy(padded.data_ptr(), bytes.data(), bytes.size());
  const torch::Tensor all = all_gather(padded);
  std::vector<std::string> texts;
  for (int peer = 0; peer < size(); ++peer) {
    texts.push_back(tensor_to_bytes(all[peer], lengths[peer].item<int64_t>()));
  }
  return texts;
}

}  // namespace lockstep

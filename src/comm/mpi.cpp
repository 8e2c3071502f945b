// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/communicator_group.h"
#include "comm/process_group.h"
#include "lockstep/error.h"

#if LOCKSTEP_HAVE_MPI
#include <mpi.h>
#endif

namespace lockstep::comm {

bool has_mpi() {
  return LOCKSTEP_HAVE_MPI != 0;
}

#if LOCKSTEP_HAVE_MPI
namespace {

// MPI counts in int; longer tensors go in pieces.
constexpr int64_t kMostElements = 1 << 30;

void check(int status, std::string_view call) {
  if (status == MPI_SUCCESS) {
    return;
  }
  std::string reason(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, reason.data(), &length);
  reason.resize(static_cast<size_t>(length));
  throw Error(ExitCode::TryAgain, fmt::format("cannot finish {}", call))
      .fact("reason", reason, "MPI");
}

MPI_Datatype to_datatype(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return MPI_FLOAT;
    case torch::kFloat64:
      return MPI_DOUBLE;
    case torch::kInt32:
      return MPI_INT32_T;
    case torch::kInt64:
      return MPI_INT64_T;
    default:
      break;
  }
  LOCKSTEP_CHECK(type == torch::kUInt8);
  return MPI_UINT8_T;
}

MPI_Op to_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::Max:
      return MPI_MAX;
    case Reduction::Min:
      return MPI_MIN;
    case Reduction::Sum:
      break;
  }
  return MPI_SUM;
}

// Calls `body(bytes, count)` for pieces of at most kMostElements elements of `width` bytes.
template <typename Body>
void in_pieces(void* data, int64_t total, int64_t width, const Body& body) {
  for (int64_t done = 0; done < total; done += kMostElements) {
    body(static_cast<char*>(data) + done * width,
         static_cast<int>(std::min(kMostElements, total - done)));
  }
}

class MpiRank final : public Communicator, public LendsProcessGroup {
 public:
  MpiRank() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "starting MPI");
    // Gradients travel on a thread of their own while backward goes on, where MPI allows it.
    overlap_ = provided >= MPI_THREAD_SERIALIZED ? Overlap::OwnThread : Overlap::None;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    group_ = make_process_group(*this, overlap_);
  }

  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  ~MpiRank() override {
    group_.reset();
    // After a failure the others may not come to MPI_Finalize; MPI_Abort is run()'s business then.
    if (std::uncaught_exceptions() == 0) {
      MPI_Finalize();
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "mpi"; }
  compat::ProcessGroupPtr process_group() const override { return group_; }

  void barrier() override { check(MPI_Barrier(MPI_COMM_WORLD), "barrier"); }

 protected:
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    const auto type = to_datatype(tensor.scalar_type());
    const auto width = static_cast<int64_t>(tensor.element_size());
    in_pieces(tensor.data_ptr(), tensor.numel(), width, [&](void* piece, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, piece, count, type, to_op(reduction), MPI_COMM_WORLD),
            "all-reduce");
    });
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    in_pieces(
        tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()), 1, [&](void* piece, int count) {
          check(MPI_Bcast(piece, count, MPI_BYTE, root, MPI_COMM_WORLD), "broadcast");
        });
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    const auto bytes = static_cast<int64_t>(input.nbytes());
    if (bytes <= kMostElements) {
      check(MPI_Allgather(input.data_ptr(),
                          static_cast<int>(bytes),
                          MPI_BYTE,
                          output.data_ptr(),
                          static_cast<int>(bytes),
                          MPI_BYTE,
                          MPI_COMM_WORLD),
            "all-gather");
      return;
    }
    for (int peer = 0; peer < size_; ++peer) {
      torch::Tensor part = output.narrow(0, peer * input.numel(), input.numel());
      if (peer == rank_) {
        part.copy_(input);
      }
      do_broadcast(part, peer);
    }
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    if (output.numel() > kMostElements) {
      torch::Tensor sum = input.clone();
      do_all_reduce(sum, Reduction::Sum);
      output.copy_(sum.narrow(0, rank_ * output.numel(), output.numel()));
      return;
    }
    check(MPI_Reduce_scatter_block(input.data_ptr(),
                                   output.data_ptr(),
                                   static_cast<int>(output.numel()),
                                   to_datatype(input.scalar_type()),
                                   MPI_SUM,
                                   MPI_COMM_WORLD),
          "reduce-scatter");
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  Overlap overlap_ = Overlap::None;
  compat::ProcessGroupPtr group_;
};

}  // namespace

std::unique_ptr<Communicator> join_mpi() {
  return std::make_unique<MpiRank>();
}

#else

std::unique_ptr<Communicator> join_mpi() {
  throw Error(ExitCode::Usage, "cannot join mpirun's gang: this build of lockstep has no MPI")
      .hint("install libopenmpi-dev and build again, or start the program with lockstep run");
}

#endif

}  // namespace lockstep::comm

// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/error.h"
#include "training/kernels/elementwise.h"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kMaxAlgorithms = 12;  // that are timed for a shape
constexpr int kTimedRuns = 3;       // of each algorithm
constexpr uint32_t kBestAlignment = 256;

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return;
  }
  const bool is_lack = status == CUBLAS_STATUS_ALLOC_FAILED;
  throw Error(is_lack ? ExitCode::Unavailable : ExitCode::Bug,
              std::string("cannot continue: ") + call + " failed")
      .fact("error", cublasLtGetStatusName(status), "cuBLASLt")
      .fact("text", cublasLtGetStatusString(status), "cuBLASLt");
}

// Owner of a handle of the C library.
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) {
      destroy(handle_);
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }
  Handle* address() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Library = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() {
    if (memory_ != nullptr) {
      cudaFree(memory_);
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Returns false if the allocation fails.
  bool take(size_t bytes) {
    const cudaError_t status = cudaMalloc(&memory_, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // CUDA would report it again at the next launch
      memory_ = nullptr;
      return false;
    }
    check_cuda(status, "cudaMalloc");
    return true;
  }
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  float milliseconds_until(const Event& later) const {
    check_cuda(cudaEventSynchronize(later.event_), "cudaEventSynchronize");
    float passed = 0;
    check_cuda(cudaEventElapsedTime(&passed, event_, later.event_), "cudaEventElapsedTime");
    return passed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// During the capture of a CUDA graph nothing may be timed: events cannot be synchronized, and a
// failing call would invalidate the capture.
bool is_capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

// The largest power of two, up to 256, that divides the address. Algorithms with wide loads need
// it, so the choice depends on it; a null pointer restricts nothing.
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address == 0) {
    return kBestAlignment;
  }
  const int zeros = std::min(std::countr_zero(address), std::countr_zero(kBestAlignment));
  return uint32_t{1} << zeros;
}

// Everything on which the choice of an algorithm depends.
using Key = std::tuple<int64_t,
                       int64_t,
                       int64_t,
                       OperandType,
                       OperandType,
                       bool,
                       bool,
                       bool,
                       bool,
                       bool,
                       bool,
                       Epilogue,
                       uint32_t>;

Key key_of(const MatmulCall& call) {
  const uint32_t alignment = std::min({alignment_of(call.output),
                                       alignment_of(call.left),
                                       alignment_of(call.right),
                                       alignment_of(call.bias),
                                       alignment_of(call.aux),
                                       alignment_of(call.addend)});
  return {call.m,
          call.n,
          call.k,
          call.left_type,
          call.right_type,
          call.fast,
          call.left_transposed,
          call.right_transposed,
          call.float_output,
          call.accumulate,
          call.addend != nullptr,
          call.epilogue,
          alignment};
}

cudaDataType_t type_of(OperandType type) {
  switch (type) {
    case OperandType::Bf16:
      return CUDA_R_16BF;
    case OperandType::E4m3:
      return CUDA_R_8F_E4M3;
    case OperandType::E5m2:
      return CUDA_R_8F_E5M2;
  }
  throw Error(ExitCode::Bug, "cannot multiply: unknown operand type");
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::None:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::Bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::BiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::GeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  throw Error(ExitCode::Bug, "cannot multiply: no such epilogue");
}

// One shape: its description for cuBLASLt, and the algorithm that was chosen.
//
// cuBLASLt stores matrices column by column. A row-major matrix [m, n] is the same memory as a
// column-major one [n, m], its transpose. So the product is computed as
//
//   output^T [n, m] = right^T [n, k] x left^T [k, m]
//
// without moving anything: `right` is cuBLASLt's A and `left` its B, and TRANSA belongs to `right`.
struct Plan {
  Description description;
  Layout right;
  Layout left;
  Layout output;
  cublasLtMatmulAlgo_t algorithm{};
  bool has_algorithm = false;  // false: cuBLASLt does not have this epilogue
  bool is_timed = false;       // the fastest of several, not the first
};

template <typename Value>
void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check_cublas(
      cublasLtMatmulDescSetAttribute(plan.description.get(), attribute, &value, sizeof value),
      "cublasLtMatmulDescSetAttribute");
}

void make_layout(Layout& layout, cudaDataType_t type, int64_t rows, int64_t columns) {
  check_cublas(cublasLtMatrixLayoutCreate(layout.address(),
                                          type,
                                          static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns),
                                          rows),
               "cublasLtMatrixLayoutCreate");
}

void describe(Plan& plan, const MatmulCall& call) {
  check_cublas(cublasLtMatmulDescCreate(plan.description.address(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  const auto operation = [](bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(plan, CUBLASLT_MATMUL_DESC_TRANSA, operation(call.right_transposed));
  set(plan, CUBLASLT_MATMUL_DESC_TRANSB, operation(call.left_transposed));
  set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
  const cudaDataType_t narrow = CUDA_R_16BF;
  if (call.epilogue == Epilogue::Bias || call.epilogue == Epilogue::BiasGelu) {
    set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, narrow);
  }
  if (call.epilogue == Epilogue::BiasGelu || call.epilogue == Epilogue::GeluBackward) {
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, narrow);
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.n);
  }
  if (call.fast) {
    set(plan, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  }
  const bool right = call.right_transposed;
  const bool left = call.left_transposed;
  make_layout(
      plan.right, type_of(call.right_type), right ? call.k : call.n, right ? call.n : call.k);
  make_layout(plan.left, type_of(call.left_type), left ? call.m : call.k, left ? call.k : call.m);
  make_layout(plan.output, call.float_output ? CUDA_R_32F : CUDA_R_16BF, call.n, call.m);
}

// Before each launch: the plan is shared by all calls of its shape, and the attributes are read
// when the product is queued.
void set_pointers(Plan& plan, const MatmulCall& call) {
  if (call.epilogue == Epilogue::Bias || call.epilogue == Epilogue::BiasGelu) {
    set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
  }
  if (call.epilogue == Epilogue::BiasGelu || call.epilogue == Epilogue::GeluBackward) {
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux);
  }
  // Both operands are fp8 or neither is: cuBLASLt has no product of fp8 and bf16.
  if (call.right_type != OperandType::Bf16) {
    set(plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.right_inverse);
    set(plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.left_inverse);
  }
}

}  // namespace

struct Matmul::Parts {
  Library library;
  DeviceMemory workspace;
  std::map<Key, Plan> plans;

  cublasStatus_t launch(const Plan& plan,
                        const cublasLtMatmulAlgo_t& algorithm,
                        const MatmulCall& call,
                        void* output,
                        Stream stream) const {
    const float alpha = 1;
    const float beta = call.accumulate || call.addend != nullptr ? 1 : 0;
    const void* added = call.addend != nullptr ? static_cast<const void*>(call.addend) : output;
    return cublasLtMatmul(library.get(),
                          plan.description.get(),
                          &alpha,
                          call.right,
                          plan.right.get(),
                          call.left,
                          plan.left.get(),
                          &beta,
                          added,
                          plan.output.get(),
                          output,
                          plan.output.get(),
                          &algorithm,
                          workspace.get(),
                          kWorkspaceBytes,
                          stream);
  }

  // Candidates of the library's heuristic, best guess first; empty if it supports none.
  std::vector<cublasLtMatmulAlgo_t> ask_for_algorithms(const Plan& plan, uint32_t alignment) const {
    Preference preference;
    check_cublas(cublasLtMatmulPreferenceCreate(preference.address()),
                 "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublas(
          cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> results{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library.get(),
                                                                 plan.description.get(),
                                                                 plan.right.get(),
                                                                 plan.left.get(),
                                                                 plan.output.get(),
                                                                 plan.output.get(),
                                                                 preference.get(),
                                                                 kMaxAlgorithms,
                                                                 results.data(),
                                                                 &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
      return {};
    }
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (size_t i = 0; i < static_cast<size_t>(found); ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) {
        algorithms.push_back(results[i].algo);
      }
    }
    return algorithms;
  }

  // Nothing if the algorithm fails despite the heuristic. The first launch is not timed: it may
  // load the kernel.
  std::optional<float> time_algorithm(const Plan& plan,
                                      const cublasLtMatmulAlgo_t& algorithm,
                                      const MatmulCall& call,
                                      void* output,
                                      Stream stream) const {
    if (launch(plan, algorithm, call, output, stream) != CUBLAS_STATUS_SUCCESS) {
      cudaGetLastError();
      return std::nullopt;
    }
    Event start;
    Event end;
    start.record(stream);
    for (int i = 0; i < kTimedRuns; ++i) {
      check_cublas(launch(plan, algorithm, call, output, stream), "cublasLtMatmul");
    }
    end.record(stream);
    return start.milliseconds_until(end);
  }

  // Times the candidates on the operands themselves. Nothing is lost: the caller writes the output
  // again afterwards. Only a product that is added to its output is timed on scratch memory,
  // because it would be added several times.
  void choose(
      Plan& plan, const MatmulCall& call, uint32_t alignment, bool times, Stream stream) const {
    const std::vector<cublasLtMatmulAlgo_t> algorithms = ask_for_algorithms(plan, alignment);
    plan.has_algorithm = !algorithms.empty();
    plan.is_timed = false;
    if (algorithms.empty()) {
      return;
    }
    plan.algorithm = algorithms.front();
    if (!times || is_capturing(stream)) {
      return;
    }
    plan.is_timed = true;
    DeviceMemory scratch;
    void* output = call.output;
    if (call.accumulate) {
      const auto bytes = static_cast<size_t>(call.m * call.n) * sizeof(float);
      // Without memory for the test the best guess stays, and is_timed prevents another try in each
      // step.
      if (!scratch.take(bytes)) {
        return;
      }
      output = scratch.get();
      check_cuda(cudaMemsetAsync(output, 0, bytes, stream), "cudaMemsetAsync");
    }
    std::optional<float> best;
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      const std::optional<float> taken = time_algorithm(plan, algorithm, call, output, stream);
      if (taken && (!best || *taken < *best)) {
        best = taken;
        plan.algorithm = algorithm;
      }
    }
    plan.has_algorithm = best.has_value();
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  // The first use of a shape takes the best guess. Timing pays only for shapes that are used again
  // (generated text gets longer with each token, so its shapes are used once), and it synchronizes
  // with the stream, which is not allowed during capture. So candidates are timed at the second use
  // or later, outside of captures.
  Plan& plan_for(const MatmulCall& call, Stream stream) {
    const Key key = key_of(call);
    const auto [at, is_new] = plans.try_emplace(key);
    Plan& plan = at->second;
    try {
      if (is_new) {
        describe(plan, call);
      }
      set_pointers(plan, call);
      const bool may_improve = plan.has_algorithm && !plan.is_timed && !is_capturing(stream);
      if (is_new || may_improve) {
        choose(plan, call, std::get<uint32_t>(key), !is_new, stream);
      }
    } catch (...) {
      plans.erase(at);
      throw;
    }
    return plan;
  }

  // For shapes whose epilogue cuBLASLt does not support: the product, then our own kernel for gelu.
  // Recurses into run() with a simpler epilogue; None and Bias have no simpler form.
  void run_in_steps(const MatmulCall& call, Stream stream) {
    MatmulCall product = call;
    switch (call.epilogue) {
      case Epilogue::BiasGelu:
        product.epilogue = Epilogue::Bias;
        product.output = call.aux;
        product.aux = nullptr;
        run(product, stream);
        bias_gelu_forward(
            static_cast<Bf16*>(call.output), nullptr, call.aux, nullptr, call.m, call.n, stream);
        return;
      case Epilogue::GeluBackward: {
        product.epilogue = Epilogue::None;
        product.aux = nullptr;
        run(product, stream);
        auto* output = static_cast<Bf16*>(call.output);
        gelu_backward(output, nullptr, output, call.aux, nullptr, call.m, call.n, stream);
        return;
      }
      case Epilogue::None:
      case Epilogue::Bias:
        throw Error(ExitCode::Unavailable,
                    "cannot multiply: cuBLASLt has no algorithm for this shape")
            .fact("m, n, k",
                  std::to_string(call.m) + ", " + std::to_string(call.n) + ", " +
                      std::to_string(call.k));
    }
  }

  void run(const MatmulCall& call, Stream stream) {
    const Plan& plan = plan_for(call, stream);
    if (!plan.has_algorithm) {
      run_in_steps(call, stream);
      return;
    }
    check_cublas(launch(plan, plan.algorithm, call, call.output, stream), "cublasLtMatmul");
  }
};

Matmul::Matmul() : parts_(std::make_unique<Parts>()) {
  check_cublas(cublasLtCreate(parts_->library.address()), "cublasLtCreate");
  if (!parts_->workspace.take(kWorkspaceBytes)) {
    check_cuda(cudaErrorMemoryAllocation, "cudaMalloc");
  }
}

Matmul::~Matmul() = default;

void Matmul::run(const MatmulCall& call, Stream stream) {
  require(call.m > 0 && call.n > 0 && call.k > 0, "non-empty matrices");
  require(!call.accumulate || (call.float_output && call.epilogue == Epilogue::None),
          "float32 output and no epilogue with accumulate");
  require(!call.float_output || call.epilogue == Epilogue::None || call.epilogue == Epilogue::Bias,
          "bfloat16 output with a gelu epilogue");
  require(call.addend == nullptr ||
              (!call.float_output && call.addend != call.output &&
               (call.epilogue == Epilogue::None || call.epilogue == Epilogue::Bias)),
          "with an addend: bfloat16 output in other memory, and no gelu epilogue");
  const bool is_fp8 = call.left_type != OperandType::Bf16;
  require(is_fp8 == (call.right_type != OperandType::Bf16),
          "operands that are both fp8 or both bfloat16");
  require(!is_fp8 || (!call.left_transposed && call.right_transposed && call.n % 16 == 0 &&
                      call.k % 16 == 0),
          "fp8 operands with the summed dimension last, and n and k that are multiples of 16");
  parts_->run(call, stream);
}

}  // namespace lockstep::kernels

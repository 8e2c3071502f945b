// SPDX-License-Identifier: Apache-2.0
// All differences between the supported versions of libtorch (1.13 to 2.14). They are detected from
// the declarations that the compiler sees, not from version numbers, so that versions in between
// work too.
#pragma once

#include <memory>
#include <string>
#include <torch/types.h>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace lockstep::comm::compat {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Since 2.0 a ProcessGroup forwards each call to the Backend of the device of the tensor. In 1.13 a
// transport was itself a ProcessGroup.
template <typename Group>
concept SendsToBackends = requires(Group& group) {
  group.setDefaultBackend(Group::BackendType::GLOO);
};

template <typename Group>
struct TransportOf {
  using Type = Group;
};
template <SendsToBackends Group>
struct TransportOf<Group> {
  using Type = c10d::Backend;
};

// Base class of a transport.
using Transport = TransportOf<c10d::ProcessGroup>::Type;

template <typename Kind, typename Group = c10d::ProcessGroup>
c10::intrusive_ptr<Group> to_process_group(const StorePtr& store,
                                           int rank,
                                           int size,
                                           c10::intrusive_ptr<Kind> transport) {
  if constexpr (SendsToBackends<Group>) {
    // The backend type is only a label here; GLOO exists in all versions. CUDA tensors use the same
    // backend: a Communicator copies them through the CPU if necessary.
    auto group = c10::make_intrusive<Group>(store, rank, size);
    const c10::intrusive_ptr<c10d::Backend> backend = std::move(transport);
    group->setBackend(c10::DeviceType::CPU, Group::BackendType::GLOO, backend);
    group->setBackend(c10::DeviceType::CUDA, Group::BackendType::GLOO, backend);
    group->setDefaultBackend(Group::BackendType::GLOO);
    return group;
  } else {
    return transport;
  }
}

struct ReducerOptions {
  // In the expected order of the gradients, which determines the buckets.
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names;
  ProcessGroupPtr group;
  int64_t first_bucket_bytes = 0;
  int64_t bucket_bytes = 0;
  bool find_unused = false;
};

// Newer reducers do not take a list of bucket limits, and have three more options.
template <typename Reducer = c10d::Reducer>
std::shared_ptr<Reducer> make_reducer(const ReducerOptions& options) {
  using Indices = std::vector<std::vector<size_t>>;
  using Names = std::unordered_map<size_t, std::string>;
  const std::vector<bool> sparse(options.parameters.size(), false);
  const std::vector<size_t> limits = {static_cast<size_t>(options.first_bucket_bytes),
                                      static_cast<size_t>(options.bucket_bytes)};
  const auto [buckets, bucket_limits] =
      c10d::compute_bucket_assignment_by_size(options.parameters, limits, sparse);
  Names names;
  for (size_t i = 0; i < options.names.size(); ++i) {
    names.emplace(i, options.names[i]);
  }
  if constexpr (std::is_constructible_v<Reducer,
                                        std::vector<at::Tensor>,
                                        Indices,
                                        std::vector<size_t>,
                                        ProcessGroupPtr,
                                        std::vector<bool>,
                                        int64_t,
                                        bool,
                                        bool,
                                        Names,
                                        int64_t>) {
    return std::make_shared<Reducer>(options.parameters,
                                     buckets,
                                     bucket_limits,
                                     options.group,
                                     sparse,
                                     options.bucket_bytes,
                                     options.find_unused,
                                     /*gradient_as_bucket_view=*/true,
                                     names,
                                     options.first_bucket_bytes);
  } else {
    return std::make_shared<Reducer>(options.parameters,
                                     buckets,
                                     options.group,
                                     sparse,
                                     options.bucket_bytes,
                                     options.find_unused,
                                     /*gradient_as_bucket_view=*/true,
                                     names,
                                     options.first_bucket_bytes,
                                     /*skip_all_reduce_unused_params=*/false,
                                     /*use_python_reducer=*/false,
                                     std::vector<int64_t>{});
  }
}

// 2.x uses libuv by default and throws if libtorch was built without it.
template <typename Options>
void avoid_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) {
    options.useLibUV = false;
  }
}

}  // namespace lockstep::comm::compat

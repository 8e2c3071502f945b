// SPDX-License-Identifier: Apache-2.0
#include "support/collectives.h"

#include <fmt/format.h>
#include <set>
#include <thread>
#include <torch/torch.h>

namespace lockstep {
namespace {

class Checker {
 public:
  Checker(Communicator& comm, torch::Device device) : comm_(comm), device_(device) {}

  // Copies the tensor to the device under test.
  torch::Tensor on(const torch::Tensor& tensor) const { return tensor.to(device_); }

  void expect(const std::string& what, const torch::Tensor& where, const torch::Tensor& wanted) {
    const torch::Tensor found = where.cpu();
    if (where.device() != device_ || found.sizes() != wanted.sizes() ||
        found.scalar_type() != wanted.scalar_type() || !found.equal(wanted)) {
      text_ += fmt::format("{} on rank {} of {}\n", what, comm_.rank(), comm_.size());
    }
  }

  void expect(const std::string& what, bool is_right) {
    if (!is_right) {
      text_ += fmt::format("{} on rank {} of {}\n", what, comm_.rank(), comm_.size());
    }
  }

  std::string text() const { return text_; }

 private:
  Communicator& comm_;
  torch::Device device_;
  std::string text_;
};

// 16-bit types are added in float32 and rounded once. 2049 is not representable in half precision,
// so 2048 + 1 + 1 would be 2048 if every addition was rounded. Hierarchical transports round at
// each level and are not checked.
void check_rounding(Communicator& comm, Checker& checker) {
  const std::set<std::string_view> flat = {"threads", "shared-memory", "gloo", "mpi"};
  if (comm.size() < 3 || !flat.contains(comm.kind())) {
    return;
  }
  for (const auto& [type, large] : {std::pair(torch::kHalf, 2048), {torch::kBFloat16, 256}}) {
    torch::Tensor sum = checker.on(torch::full({5},
                                               comm.rank() == 0  ? large
                                               : comm.rank() < 3 ? 1
                                                                 : 0,
                                               type));
    comm.all_reduce(sum);
    checker.expect(
        fmt::format("rounding of {}", toString(type)), sum, torch::full({5}, large + 2, type));
    torch::Tensor slices = checker.on(torch::full({comm.size(), 3},
                                                  comm.rank() == 0  ? large
                                                  : comm.rank() < 3 ? 1
                                                                    : 0,
                                                  type));
    checker.expect(fmt::format("rounding of {} slices", toString(type)),
                   comm.reduce_scatter(slices),
                   torch::full({3}, large + 2, type));
  }
}

// Small integers, whose sums are exact in every type and in every order.
torch::Tensor numbers(int64_t count, int rank, torch::ScalarType type) {
  return (torch::arange(count) % 5 + rank).to(type);
}

void check_reductions(Communicator& comm, Checker& checker, int64_t count) {
  const int size = comm.size();
  for (const auto type : {torch::kFloat32,
                          torch::kFloat64,
                          torch::kInt64,
                          torch::kInt32,
                          torch::kUInt8,
                          torch::kHalf,
                          torch::kBFloat16}) {
    torch::Tensor sum = checker.on(numbers(count, comm.rank(), type));
    comm.all_reduce(sum);
    const torch::Tensor wanted = (torch::arange(count) % 5 * size + size * (size - 1) / 2).to(type);
    checker.expect(fmt::format("sum of {} {}", count, toString(type)), sum, wanted);
  }
  torch::Tensor maximum = checker.on(numbers(count, comm.rank(), torch::kFloat32));
  comm.all_reduce(maximum, Reduction::Max);
  torch::Tensor max_half = checker.on(numbers(count, comm.rank(), torch::kBFloat16));
  comm.all_reduce(max_half, Reduction::Max);
  checker.expect(fmt::format("max of {} bfloat16", count),
                 max_half,
                 numbers(count, size - 1, torch::kBFloat16));
  checker.expect(
      fmt::format("max of {}", count), maximum, numbers(count, size - 1, torch::kFloat32));
  torch::Tensor minimum = checker.on(numbers(count, comm.rank(), torch::kInt64));
  comm.all_reduce(minimum, Reduction::Min);
  checker.expect(fmt::format("min of {}", count), minimum, numbers(count, 0, torch::kInt64));
}

void check_transport(Communicator& comm, Checker& checker, int64_t count) {
  const int size = comm.size();
  for (int root = 0; root < size; ++root) {
    torch::Tensor sent = checker.on(numbers(count, comm.rank(), torch::kFloat64));
    comm.broadcast(sent, root);
    checker.expect(
        fmt::format("broadcast of {}", count), sent, numbers(count, root, torch::kFloat64));
  }
  const torch::Tensor all = comm.all_gather(checker.on(numbers(count, comm.rank(), torch::kInt32)));
  std::vector<torch::Tensor> rows;
  for (int rank = 0; rank < size; ++rank) {
    rows.push_back(numbers(count, rank, torch::kInt32));
  }
  checker.expect(fmt::format("all-gather of {}", count), all, torch::stack(rows));

  for (const auto type : {torch::kFloat32, torch::kHalf, torch::kInt64}) {
    torch::Tensor slices = checker.on(torch::empty({size, count}, type));
    for (int rank = 0; rank < size; ++rank) {
      slices[rank] = numbers(count, rank + comm.rank(), type);
    }
    const torch::Tensor mine = comm.reduce_scatter(slices);
    const torch::Tensor wanted =
        (torch::arange(count) % 5 * size + comm.rank() * size + size * (size - 1) / 2).to(type);
    checker.expect(fmt::format("reduce-scatter of {} {}", count, toString(type)), mine, wanted);
  }
}

void check_objects(Communicator& comm, Checker& checker) {
  const int last = comm.size() - 1;
  const std::string text = comm.broadcast_bytes(fmt::format("from {}", comm.rank()), last);
  checker.expect("bytes", text == fmt::format("from {}", last));
  checker.expect("no bytes", comm.broadcast_bytes("", 0).empty());
  c10::Dict<std::string, int64_t> words;
  words.insert("rank", comm.rank());
  const torch::IValue object = comm.broadcast_object(words, last);
  checker.expect("object", object.toGenericDict().at("rank").toInt() == last);
  const auto texts = comm.all_gather_bytes(std::string(static_cast<size_t>(comm.rank()), 'x'));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    checker.expect("gathered bytes", texts[rank] == std::string(rank, 'x'));
  }
}

void check_views(Communicator& comm, Checker& checker) {
  const int size = comm.size();
  torch::Tensor matrix = checker.on(torch::zeros({4, 6}));
  torch::Tensor column = matrix.select(1, 2);  // not contiguous
  column.fill_(comm.rank() + 1);
  comm.all_reduce(column);
  torch::Tensor wanted = torch::zeros({4, 6});
  wanted.select(1, 2).fill_(size * (size + 1) / 2);
  checker.expect("sum of a view", matrix, wanted);

  std::vector<torch::Tensor> many = {checker.on(torch::full({3}, comm.rank(), torch::kFloat32)),
                                     checker.on(torch::full({2, 2}, comm.rank(), torch::kInt64)),
                                     checker.on(torch::full({5}, comm.rank(), torch::kFloat32)),
                                     torch::empty({0})};
  comm.broadcast(many, size - 1);
  checker.expect("first of many", many[0], torch::full({3}, size - 1, torch::kFloat32));
  checker.expect("second of many", many[1], torch::full({2, 2}, size - 1, torch::kInt64));
  checker.expect("third of many", many[2], torch::full({5}, size - 1, torch::kFloat32));
}

// Checks subsets of every size, and a second channel that is used at the same time as the first.
void check_subsets(Communicator& comm, Checker& checker) {
  for (int count = 1; count <= comm.size(); ++count) {
    const std::unique_ptr<Communicator> part = comm.subset(count);
    checker.expect("members of the subset", (part != nullptr) == (comm.rank() < count));
    if (part != nullptr) {
      checker.expect("rank in the subset", part->rank() == comm.rank() && part->size() == count);
      torch::Tensor sum = checker.on(torch::full({1000}, comm.rank() + 1, torch::kFloat32));
      part->all_reduce(sum);
      checker.expect(
          "sum in the subset", sum, torch::full({1000}, count * (count + 1) / 2, torch::kFloat32));
    }
  }
  const std::unique_ptr<Communicator> second = comm.subset(comm.size());
  torch::Tensor there = checker.on(torch::full({70000}, comm.rank() + 1, torch::kFloat32));
  torch::Tensor here = checker.on(torch::full({70000}, comm.rank() + 1, torch::kFloat64));
  {
    const std::jthread other([&] { second->all_reduce(there); });
    comm.all_reduce(here);
  }
  const int sum = comm.size() * (comm.size() + 1) / 2;
  checker.expect("sum on the second channel", there, torch::full({70000}, sum, torch::kFloat32));
  checker.expect("sum on the first channel", here, torch::full({70000}, sum, torch::kFloat64));
}

}  // namespace

std::string faults_of_collectives(Communicator& comm,
                                  torch::Device device,
                                  const std::vector<int64_t>& counts) {
  Checker checker(comm, device);
  for (const int64_t count : counts) {
    check_reductions(comm, checker, count);
    check_transport(comm, checker, count);
    comm.barrier();
  }
  check_rounding(comm, checker);
  check_objects(comm, checker);
  check_views(comm, checker);
  check_subsets(comm, checker);
  return checker.text();
}

}  // namespace lockstep

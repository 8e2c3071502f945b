// SPDX-License-Identifier: Apache-2.0
#include "support/collectives.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

class Checker {
 public:
  explicit Checker(Communicator& comm) : comm_(comm) {}

  void expect(const std::string& what, const torch::Tensor& found, const torch::Tensor& wanted) {
    if (found.sizes() != wanted.sizes() || found.scalar_type() != wanted.scalar_type() ||
        !found.equal(wanted)) {
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
  std::string text_;
};

// Small whole numbers: sums are exact in every type, in every order.
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
    torch::Tensor sum = numbers(count, comm.rank(), type);
    comm.all_reduce(sum);
    const torch::Tensor wanted = (torch::arange(count) % 5 * size + size * (size - 1) / 2).to(type);
    checker.expect(fmt::format("sum of {} {}", count, toString(type)), sum, wanted);
  }
  torch::Tensor most = numbers(count, comm.rank(), torch::kFloat32);
  comm.all_reduce(most, Reduction::Max);
  checker.expect(fmt::format("max of {}", count), most, numbers(count, size - 1, torch::kFloat32));
  torch::Tensor least = numbers(count, comm.rank(), torch::kInt64);
  comm.all_reduce(least, Reduction::Min);
  checker.expect(fmt::format("min of {}", count), least, numbers(count, 0, torch::kInt64));
}

void check_transport(Communicator& comm, Checker& checker, int64_t count) {
  const int size = comm.size();
  for (int root = 0; root < size; ++root) {
    torch::Tensor sent = numbers(count, comm.rank(), torch::kFloat64);
    comm.broadcast(sent, root);
    checker.expect(
        fmt::format("broadcast of {}", count), sent, numbers(count, root, torch::kFloat64));
  }
  const torch::Tensor all = comm.all_gather(numbers(count, comm.rank(), torch::kInt32));
  std::vector<torch::Tensor> rows;
  for (int rank = 0; rank < size; ++rank) {
    rows.push_back(numbers(count, rank, torch::kInt32));
  }
  checker.expect(fmt::format("all-gather of {}", count), all, torch::stack(rows));

  torch::Tensor slices = torch::empty({size, count}, torch::kFloat32);
  for (int rank = 0; rank < size; ++rank) {
    slices[rank] = numbers(count, rank + comm.rank(), torch::kFloat32);
  }
  const torch::Tensor mine = comm.reduce_scatter(slices);
  const torch::Tensor wanted =
      (torch::arange(count) % 5 * size + comm.rank() * size + size * (size - 1) / 2)
          .to(torch::kFloat32);
  checker.expect(fmt::format("reduce-scatter of {}", count), mine, wanted);
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
  torch::Tensor matrix = torch::zeros({4, 6});
  torch::Tensor column = matrix.select(1, 2);  // not contiguous
  column.fill_(comm.rank() + 1);
  comm.all_reduce(column);
  torch::Tensor wanted = torch::zeros({4, 6});
  wanted.select(1, 2).fill_(size * (size + 1) / 2);
  checker.expect("sum of a view", matrix, wanted);

  std::vector<torch::Tensor> many = {torch::full({3}, comm.rank(), torch::kFloat32),
                                     torch::full({2, 2}, comm.rank(), torch::kInt64),
                                     torch::full({5}, comm.rank(), torch::kFloat32),
                                     torch::empty({0})};
  comm.broadcast(many, size - 1);
  checker.expect("first of many", many[0], torch::full({3}, size - 1, torch::kFloat32));
  checker.expect("second of many", many[1], torch::full({2, 2}, size - 1, torch::kInt64));
  checker.expect("third of many", many[2], torch::full({5}, size - 1, torch::kFloat32));
}

}  // namespace

std::string faults_of_collectives(Communicator& comm) {
  Checker checker(comm);
  // Around the edges of a chunk of shared memory (64 Ki floats), and several of them.
  for (const int64_t count : {1, 7, 1000, 65535, 65536, 65537, 300001}) {
    check_reductions(comm, checker, count);
    check_transport(comm, checker, count);
    comm.barrier();
  }
  check_objects(comm, checker);
  check_views(comm, checker);
  return checker.text();
}

}  // namespace lockstep

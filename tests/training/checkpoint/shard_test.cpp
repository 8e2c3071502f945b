// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/shard.h"

#include <gmock/gmock.h>
#include <thread>

#include "common/os/files.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/piece_sources.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

// The state of a training, equal on every worker.
std::vector<TensorPiece> state_of(const Net& net, const torch::optim::Optimizer& optimizer) {
  const NamedTensors weights = collect_model(*net);
  std::vector<TensorPiece> pieces = as_pieces(kModelPrefix, weights);
  for (TensorPiece& piece : optimizer_pieces(optimizer, weights)) {
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

class Shards : public ::testing::Test {
 protected:
  Shards() {
    for (int step = 0; step < 3; ++step) {
      train_step(net_, adam_, step);
    }
  }

  CheckpointState state() const {
    return {
        .step = 7, .world_size = 1, .optimizer = describe_optimizer(adam_, collect_model(*net_))};
  }

  // One thread per worker; `spoil` can change the pieces of a worker.
  std::filesystem::path save(int writers,
                             const std::function<void(int, std::vector<TensorPiece>&)>& spoil = {},
                             const Patience& patience = {}) {
    Draft draft(root_, 7, "token");
    const std::vector<TensorPiece> all = state_of(net_, adam_);
    std::vector<std::jthread> others;
    const auto write = [&, partial = draft.path()](int rank) {
      std::vector<TensorPiece> mine = share_of(all, rank, writers);
      if (spoil) {
        spoil(rank, mine);
      }
      Snapshot snapshot;
      snapshot.take(mine);
      write_shard({root_, partial, {}, rank, writers}, snapshot);
    };
    for (int rank = 1; rank < writers; ++rank) {
      others.emplace_back([&, rank] {
        try {
          write(rank);
        } catch (const Error&) {
          // Rank 0 reports the failure.
        }
      });
    }
    write(0);
    return complete({root_, draft.path(), state(), 0, writers}, draft, patience);
  }

  os::TemporaryDirectory directory_;
  std::filesystem::path root_ = directory_.path() / "checkpoints";
  Net net_;
  torch::optim::Adam adam_{net_->parameters(), torch::optim::AdamOptions(0.01).amsgrad(true)};
};

NamedTensors named(const std::vector<TensorPiece>& pieces) {
  NamedTensors tensors;
  for (const TensorPiece& piece : pieces) {
    tensors.emplace_back(piece.name, piece.values.reshape(piece.shape));
  }
  return tensors;
}

TEST_F(Shards, OfAnyNumberOfWritersGiveBackTheSameTraining) {
  for (const int writers : {1, 2, 3, 7}) {
    SCOPED_TRACE(writers);
    const CheckpointReader reader(save(writers));
    const auto source = reader.pieces();
    Net other;
    torch::optim::Adam adam(other->parameters(), torch::optim::AdamOptions(1));
    apply_model(*other, *source);
    apply_optimizer(adam, collect_model(*other), find_description(reader), *source);

    EXPECT_EQ(reader.state(), state());
    EXPECT_EQ(describe_optimizer(adam, collect_model(*other)), state().optimizer);
    EXPECT_TRUE(identical(named(state_of(other, adam)), named(state_of(net_, adam_))));
  }
}

TEST_F(Shards, AreEvenAndHoldEveryElementOnce) {
  const std::vector<TensorPiece> all = state_of(net_, adam_);
  std::map<std::string, int64_t> elements;
  std::vector<uint64_t> bytes;
  for (int rank = 0; rank < 4; ++rank) {
    uint64_t mine = 0;
    for (const TensorPiece& piece : share_of(all, rank, 4)) {
      EXPECT_EQ(piece.offset, elements[piece.name]) << piece.name;
      elements[piece.name] += piece.values.numel();
      mine += piece.values.nbytes();
    }
    bytes.push_back(mine);
  }

  for (const TensorPiece& piece : all) {
    EXPECT_EQ(elements[piece.name], piece.values.numel()) << piece.name;
  }
  EXPECT_LE(*std::ranges::max_element(bytes) - *std::ranges::min_element(bytes), 16);
}

TEST_F(Shards, AreReadAcrossTheirBorders) {
  const auto source = CheckpointReader(save(5)).pieces();
  const std::string name = "model.head.0.weight";
  const torch::Tensor whole =
      net_->head[0]->as<torch::nn::Linear>()->weight.detach().flatten().clone();
  for (int64_t offset = 0; offset < whole.numel(); ++offset) {
    for (int64_t count = 0; count <= whole.numel() - offset; ++count) {
      torch::Tensor into = torch::empty({count});
      source->read(name, offset, into);
      ASSERT_TRUE(identical(into, whole.narrow(0, offset, count)));
    }
  }
  torch::Tensor converted = torch::empty({3}, torch::kFloat64);
  source->read(name, 1, converted);
  EXPECT_TRUE(identical(converted, whole.narrow(0, 1, 3).to(torch::kFloat64)));

  torch::Tensor strided = torch::empty({3, 2}).t();
  source->read(name, 2, strided);
  EXPECT_TRUE(identical(strided.contiguous(), whole.narrow(0, 2, 6).view({2, 3})));

  torch::Tensor too_much = torch::empty({whole.numel()});
  EXPECT_THAT(error_of([&] { source->read(name, 1, too_much); }),
              HasSubstr("64 cannot read elements 1 to "));
  EXPECT_THAT(error_of([&] { source->shape("model.x"); }),
              HasSubstr("64 cannot find tensor \"model.x\" in checkpoint "));
}

TEST_F(Shards, WithAGapOrAnOverlapMakeNoCheckpoint) {
  const std::string gap = error_of([&] {
    save(2, [](int rank, std::vector<TensorPiece>& pieces) {
      if (rank == 1) {
        pieces.front().values = pieces.front().values.flatten().narrow(0, 1, 1);
        pieces.front().offset += 1;
      }
    });
  });
  EXPECT_THAT(gap, HasSubstr("74 cannot use the pieces of step-00000007: tensor \""));
  EXPECT_THAT(gap, HasSubstr("\" lacks element "));

  EXPECT_THAT(error_of([&] {
                save(2, [](int rank, std::vector<TensorPiece>& pieces) {
                  if (rank == 1) {
                    pieces.push_back({"model.scale", {1}, 0, torch::zeros({1})});
                  }
                });
              }),
              HasSubstr("tensor \"model.scale\" contains element 0 twice\n  second: shard 1"));

  EXPECT_THAT(error_of([&] {
                save(2, [](int rank, std::vector<TensorPiece>& pieces) {
                  if (rank == 1) {
                    pieces.push_back({"model.scale", {2}, 1, torch::zeros({1})});
                  }
                });
              }),
              HasSubstr("the ranks disagree on type or shape of tensor \"model.scale\""));
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(Shards, OfAWorkerThatFailedOrIsGoneMakeNoCheckpoint) {
  EXPECT_THAT(error_of([&] {
                save(2, [&](int rank, std::vector<TensorPiece>&) {
                  if (rank == 1) {  // its file cannot be created
                    std::filesystem::create_directories(partial_path(root_, 7, "token") /
                                                        shard_name(1, 2) / "in the way");
                  }
                });
              }),
              HasSubstr("74 cannot save checkpoint step-00000007: rank 1 could not write its "
                        "shard\n  reason: cannot create "));

  EXPECT_THAT(
      error_of([&] {
        save(2,
             [](int rank, std::vector<TensorPiece>&) {
               if (rank == 1) {
                 throw Error(ExitCode::Io, "gone");
               }
             },
             {.milliseconds = 200});
      }),
      HasSubstr("cannot save checkpoint step-00000007: timed out waiting for the shard of rank 1"));

  EXPECT_THAT(error_of([&] {
                save(2,
                     [](int rank, std::vector<TensorPiece>&) {
                       if (rank == 1) {
                         throw Error(ExitCode::Io, "gone");
                       }
                     },
                     {.give_up = true});
              }),
              HasSubstr("rank 1 did not write its shard, and a worker has failed"));
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(Shards, DamagedOrMissingAreRefused) {
  const std::filesystem::path path = save(3);
  const std::filesystem::path shard = path / "shard-00001-of-00003.safetensors";
  flip_bit(shard, std::filesystem::file_size(shard) - 1);
  EXPECT_THAT(error_of([&] { CheckpointReader reader(path); }),
              HasSubstr("74 cannot use checkpoint " + path.string() +
                        ": shard-00001-of-00003.safetensors is damaged"));

  std::filesystem::remove(shard);
  EXPECT_EQ(error_of([&] { CheckpointReader reader(path); }),
            "74 cannot use checkpoint " + path.string() +
                ": shard-00001-of-00003.safetensors is missing");
}

TEST_F(Shards, OfAnotherModelOrOptimizerAreRefusedAndChangeNothing) {
  const CheckpointReader reader(save(2));
  const auto source = reader.pieces();
  Net wider(5);
  const NamedTensors before = collect_model(*wider);
  EXPECT_EQ(
      error_of([&] { apply_model(*wider, *source); }),
      "64 cannot load checkpoint " + reader.directory().string() +
          ": it belongs to another model\n  differs: head.0.weight, the first of 3 differences\n"
          "  file:    float [4, 12]\n  model:   float [5, 12]");

  torch::optim::SGD sgd(net_->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_EQ(error_of([&] {
              apply_optimizer(sgd, collect_model(*net_), find_description(reader), *source);
            }),
            "64 cannot load checkpoint " + reader.directory().string() +
                ": it belongs to another optimizer\n  file:    Adam\n  program: SGD");
}

TEST_F(Shards, ReadCheckpointsOfVersionOneTheSame) {
  CheckpointWriter writer(root_, {.step = 3});
  const NamedTensors weights = collect_model(*net_);
  writer.add_tensors(kModelPart, weights);
  writer.add_value(kOptimizerPart, collect_optimizer(adam_, weights));
  const CheckpointReader reader(writer.commit());
  const auto source = reader.pieces();
  EXPECT_THAT(read(reader.directory() / "manifest.json"), HasSubstr("\"version\": 1"));

  Net other;
  torch::optim::Adam adam(other->parameters(), torch::optim::AdamOptions(1));
  apply_model(*other, *source);
  apply_optimizer(adam, collect_model(*other), find_description(reader), *source);

  EXPECT_TRUE(identical(named(state_of(other, adam)), named(state_of(net_, adam_))));
}

TEST_F(Shards, NeedTheirSpaceBeforeTheyAreWritten) {
  std::filesystem::create_directories(root_);
  require_space(root_, 7, 1);

  EXPECT_THAT(
      error_of([&] { require_space(root_, 7, uint64_t{1} << 60); }),
      ::testing::MatchesRegex("74 cannot save checkpoint step-00000007: not enough free "
                              "space\n  required: 1.* TiB.*\n  free: .*\n  kept: .*no earlier "
                              "checkpoint exists\n  try: .*--keep 1.*"));
}

// 3 x 0x5555555555555558 is 8 in 64 bits.
TEST(Tensors, HaveAShapeWhoseSizeIsANumber) {
  for (const char* shape :
       {"[-1, -8]", "[-8]", "[3, 6148914691236517208]", "[4294967296, 4294967296]"}) {
    const std::string json =
        std::string(R"({"version": 2, "tensors": {"w": {"dtype": "F32", "shape": )") + shape +
        R"(, "pieces": [[0, 0, 8]]}}})";
    EXPECT_THAT(error_of([&] { parse_tensors(json, "manifest.json"); }),
                HasSubstr("cannot read manifest.json: tensor \"w\" has an invalid shape"));
  }
}

TEST(Tensors, HaveNoPiecesBeyondSixtyThreeBits) {
  const TensorTable tensors = {
      {"w",
       {.dtype = "F32",
        .shape = {8},
        .stretches = {{0, 0, 9223372036854775807}, {0, 9223372036854775807, 9}}}}};
  EXPECT_THAT(error_of([&] { require_covered(tensors, "x"); }),
              HasSubstr("has a piece that is too large"));
}

}  // namespace
}  // namespace lockstep::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "train/checkpointing.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <mutex>

#include "base/log.h"
#include "lockstep/error.h"

namespace lockstep::train {
namespace {

// The random numbers of the device that trains; a GPU's operators draw from its own generator.
torch::Tensor random_state(torch::Device device) {
  return at::globalContext().defaultGenerator(device).get_state().to(torch::kCPU);
}

}  // namespace

void seed_worker(const SessionParts& session, uint64_t seed) {
  const uint64_t own = seed * 1000003 + static_cast<uint64_t>(session.communicator->rank()) + 1;
  if (session.replicas > 1 && session.device.is_cuda()) {
    // Other GPUs are other replicas'.
    at::Generator generator = at::globalContext().defaultGenerator(session.device);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(own);
    return;
  }
  torch::manual_seed(own);
}

Checkpointing::Checkpointing(SessionParts& session,
                             torch::nn::Module& model,
                             torch::optim::Optimizer& optimizer,
                             Retention retention)
    : session_(session), model_(model), optimizer_(optimizer), retention_(std::move(retention)) {}

// Rank 0 looks, so that all take the same one.
std::string Checkpointing::find_directory() const {
  const std::string& wanted = session_.flags.resume;
  if (wanted != "auto" && wanted != "none") {
    const std::filesystem::path path = wanted;
    // A run, its checkpoints, or one of them.
    for (const auto& root : {path, contract::RunDirectory(path).checkpoints()}) {
      if (const auto found = find_latest_checkpoint(root)) {
        return found->directory().string();
      }
    }
    return CheckpointReader(path).directory().string();
  }
  const bool restarted = session_.placement.place.attempt > 0;
  if (wanted == "auto" || restarted) {
    if (const auto found = find_latest_checkpoint(session_.run_dir.checkpoints())) {
      return found->directory().string();
    }
  }
  return "";
}

std::optional<Checkpointing::Restored> Checkpointing::restore() {
  std::string directory;
  if (session_.communicator->rank() == 0) {
    directory = find_directory();
  }
  directory = session_.communicator->broadcast_bytes(directory);
  if (directory.empty()) {
    return std::nullopt;
  }
  const CheckpointReader reader(directory);
  apply_model(model_, reader.tensors(kModelPart), reader.path(kModelPart).string());
  apply_optimizer(optimizer_,
                  collect_model(model_),
                  reader.value(kOptimizerPart),
                  reader.path(kOptimizerPart).string());
  restore_random(reader);
  if (session_.communicator->rank() == 0) {
    log::info("resumed at step {} from {}", reader.state().step, directory);
  }
  return Restored{.state = reader.state(),
                  .averages = reader.has(kEmaPart) ? reader.tensors(kEmaPart) : NamedTensors{}};
}

void Checkpointing::restore_random(const CheckpointReader& reader) const {
  const int rank = session_.communicator->rank();
  const CheckpointState& state = reader.state();
  if (state.world_size == session_.communicator->size()) {
    for (const auto& [name, tensor] : reader.tensors(kRandomPart)) {
      if (name == fmt::format("{}.rank-{}", session_.device.is_cuda() ? "cuda" : "cpu", rank)) {
        at::Generator generator = at::globalContext().defaultGenerator(session_.device);
        generator.set_state(tensor);
        return;
      }
    }
  }
  // Random numbers belong to a rank; another gang begins new ones, that no earlier step has used.
  seed_worker(session_, state.seed + static_cast<uint64_t>(state.step));
  if (rank == 0) {
    log::info("random numbers start anew: the checkpoint is of {} workers, or of another device",
              state.world_size);
  }
}

std::filesystem::path Checkpointing::save(const CheckpointState& state,
                                          const NamedTensors& averages) {
  const torch::Tensor random = session_.communicator->all_gather(random_state(session_.device));
  if (session_.communicator->rank() != 0) {
    const std::string outcome = session_.communicator->broadcast_bytes("");
    if (outcome.starts_with('!')) {
      throw Error(ExitCode::TryAgain, "cannot go on: rank 0 could not save a checkpoint")
          .fact("reason", outcome.substr(1), "rank 0");
    }
    return outcome;
  }
  std::string outcome;
  try {
    CheckpointWriter writer(session_.run_dir.checkpoints(), state);
    const NamedTensors weights = collect_model(model_);
    writer.add_tensors(kModelPart, weights);
    writer.add_value(kOptimizerPart, collect_optimizer(optimizer_, weights));
    if (!averages.empty()) {
      writer.add_tensors(kEmaPart, averages);
    }
    NamedTensors numbers;
    for (int64_t rank = 0; rank < random.size(0); ++rank) {
      numbers.emplace_back(
          fmt::format("{}.rank-{}", session_.device.is_cuda() ? "cuda" : "cpu", rank),
          random[rank]);
    }
    writer.add_tensors(kRandomPart, numbers);
    outcome = writer.commit().string();
    prune_checkpoints(session_.run_dir.checkpoints(), retention_);
  } catch (const Error& fault) {
    session_.communicator->broadcast_bytes("!" + fault.sentence());
    throw;
  }
  session_.communicator->broadcast_bytes(outcome);
  return outcome;
}

}  // namespace lockstep::train

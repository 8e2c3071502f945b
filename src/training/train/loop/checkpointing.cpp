// SPDX-License-Identifier: Apache-2.0
//
// Decisions of rank 0 that all workers must follow (which directory, which checkpoint to resume)
// are made inside tell_outcome() and broadcast. A decision can fail, for example on a full disk;
// then all workers throw in the same place instead of waiting in the next collective. The rule of
// this file: between two collectives, no worker may leave on a path that the others do not take.
#include "training/train/loop/checkpointing.h"

#include <ATen/Context.h>
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <random>
#include <torch/utils.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/piece_sources.h"
#include "training/checkpoint/weights_file.h"

namespace lockstep::train {
namespace {

// The state of the random number generator of `device`. GPU operators use the generator of the GPU.
torch::Tensor random_state(torch::Device device) {
  return at::globalContext().defaultGenerator(device).get_state().to(torch::kCPU);
}

// One generator state per rank and kind of device.
std::string random_name(torch::Device device, int rank) {
  return fmt::format(
      "{}{}.rank-{}", checkpoint::kRandomPrefix, device.is_cuda() ? "cuda" : "cpu", rank);
}

// Distinguishes this attempt from leftovers of a killed one that has written the same step.
std::string new_token() {
  std::random_device chance;
  return fmt::format("{:08x}", chance());
}

// The prefix .trash- makes remove_leftovers() delete the file if its writer dies.
std::filesystem::path probe_file(const std::filesystem::path& root, const std::string& token) {
  return root / (".trash-probe-" + token);
}

// Called when no usable checkpoint was found: throws an Error if there are damaged ones. Starting
// from scratch would be the wrong reaction to damaged checkpoints: the user must decide.
void require_none(const std::filesystem::path& root) {
  if (const size_t damaged = list_checkpoints(root).size(); damaged > 0) {
    throw Error(ExitCode::Io,
                fmt::format("cannot resume: all checkpoints in {} are damaged", root.string()))
        .fact("damaged", std::to_string(damaged), "the warnings above")
        .hint("--resume none, to move them aside and start from the beginning");
  }
}

void require_checkpoint(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path / checkpoint::kManifestFile, unknown)) {
    return;
  }
  const bool is_there = std::filesystem::exists(path, unknown);
  const std::optional<std::string> meant =
      find_closest(path.string(), std::vector<std::string>{"auto", "none"});
  throw Error(ExitCode::Usage,
              fmt::format("cannot resume from {}: {}",
                          path.string(),
                          is_there ? "it contains no checkpoint" : "it does not exist"))
      .fact("expected", "auto, none, a run directory, or a checkpoint directory")
      .hint(meant ? "--resume " + *meant
                  : "--resume RUN_DIR; lockstep-ckpt list RUN_DIR lists its checkpoints");
}

void append(std::vector<TensorPiece>& to, std::vector<TensorPiece> more) {
  to.insert(to.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

// tell_outcome() performs an action on rank 0 only and broadcasts its result; hear_outcome()
// receives it on the other ranks. The broadcast also takes place if the action fails, with "!" and
// the reason as content. Without it the other ranks would wait for rank 0 until the timeout.
std::string tell_outcome(Communicator& comm, const std::function<std::string()>& action) {
  std::string outcome;
  try {
    outcome = action();
  } catch (const Error& fault) {
    comm.broadcast_bytes("!" + fault.sentence());
    throw;
  } catch (const std::exception& fault) {
    comm.broadcast_bytes(fmt::format("!{}", fault.what()));
    throw;
  }
  return comm.broadcast_bytes(outcome);
}

std::string hear_outcome(Communicator& comm, std::string_view task = "save a checkpoint") {
  std::string outcome = comm.broadcast_bytes("");
  if (outcome.starts_with('!')) {
    throw Error(ExitCode::TryAgain, fmt::format("cannot continue: rank 0 could not {}", task))
        .fact("reason", outcome.substr(1), "rank 0");
  }
  return outcome;
}

// A failure is only a warning: the new checkpoint is complete, and an old one does no harm.
void prune(const std::filesystem::path& root, const Retention& retention) {
  try {
    prune_checkpoints(root, retention);
  } catch (const std::exception& fault) {
    log::warn("could not delete old checkpoints: {}", fault.what());
  }
}

std::string reason_of(const std::exception_ptr& failure) {
  if (failure == nullptr) {
    return "";
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.sentence();
  } catch (const std::exception& fault) {
    return fault.what();
  }
}

}  // namespace

// The multiplier is a prime, so that (seed, rank) pairs of small numbers do not coincide.
void seed_worker(const SessionParts& session, uint64_t seed) {
  const uint64_t own = seed * 1000003 + static_cast<uint64_t>(session.communicator->rank()) + 1;
  if (session.replicas > 1 && session.device.is_cuda()) {
    // manual_seed() would seed all GPUs, including those of the other replicas.
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
                             CheckpointingOptions options)
    : session_(session), model_(model), optimizer_(optimizer), options_(std::move(options)) {}

Checkpointing::~Checkpointing() {
  // Rank 0 waits for the parts of all workers. After a failure, workers that are still alive need
  // some time to write their part; those that are gone will never write it.
  constexpr int64_t kForTheLiving = 5000;
  patience_.milliseconds = kForTheLiving;
  if (thread_.joinable()) {
    thread_.join();
  }
}

// Also finds out whether all workers see the same directory: rank 0 writes a file with a random
// name and the others look for it. If so, every worker writes its own part of a checkpoint.
void Checkpointing::prepare() {
  if (options_.saves || session_.flags.resume != "none" || session_.placement.worker.attempt > 0) {
    description_ = describe_optimizer(optimizer_, collect_model(model_));
  }
  if (!options_.saves) {
    return;
  }
  Communicator& comm = *session_.communicator;
  const std::filesystem::path root = session_.run_dir.checkpoints();
  std::string token = new_token();
  if (comm.rank() == 0) {
    token = tell_outcome(comm, [&] {
      os::make_directories(root);
      os::write_file(probe_file(root, token), token);
      return token;
    });
  } else {
    token = hear_outcome(comm);
  }
  std::error_code unknown;
  const bool sees = std::filesystem::exists(probe_file(root, token), unknown);
  const std::vector<std::string> all = comm.all_gather_bytes(sees ? "1" : "0");
  is_shared_ = std::ranges::all_of(all, [](const std::string& word) { return word == "1"; });
  if (comm.rank() == 0) {
    os::remove_tree(probe_file(root, token));
    if (!is_shared_) {
      log::info("{} is not visible to all workers: rank 0 writes the checkpoints alone",
                root.string());
    }
  }
}

// Without a shared directory, rank 0 alone writes, which is possible only if it holds all of the
// state.
int Checkpointing::writers() const {
  return is_shared_ ? session_.communicator->size() : 1;
}

// Runs on rank 0 only, so that all workers resume from the same checkpoint.
std::string Checkpointing::find_directory() const {
  const std::string& wanted = session_.flags.resume;
  const bool restarted = session_.placement.worker.attempt > 0;
  // A restart continues with the checkpoints of this run, regardless of --resume.
  const bool has_own = restarted && !list_checkpoints(session_.run_dir.checkpoints()).empty();
  if (wanted != "auto" && wanted != "none" && !has_own) {
    const std::filesystem::path path = wanted;
    std::error_code unknown;
    if (!std::filesystem::is_directory(path, unknown)) {
      require_checkpoint(path);
    }
    // `path` is a run directory, its directory of checkpoints, or one checkpoint.
    for (const auto& root : {path, contract::RunDirectory(path).checkpoints()}) {
      if (const auto found = find_latest_checkpoint(root)) {
        return found->directory().string();
      }
      require_none(root);
    }
    require_checkpoint(path);
    return CheckpointReader(path).directory().string();
  }
  if (wanted == "auto" || restarted) {
    const std::filesystem::path root = session_.run_dir.checkpoints();
    if (const auto found = find_latest_checkpoint(root)) {
      return found->directory().string();
    }
    // A new training would displace the damaged checkpoints, which may still be repairable.
    require_none(root);
  }
  return "";
}

// Moves checkpoints of later steps aside. Retention would otherwise keep them as the newest and
// delete those of this training.
std::string Checkpointing::set_aside_later(const std::filesystem::path& chosen) const {
  const std::filesystem::path root = session_.run_dir.checkpoints();
  if (!options_.saves) {
    return "";
  }
  const int64_t step = chosen.empty() ? -1 : CheckpointReader::verified(chosen).state().step;
  const std::vector<CheckpointEntry> all = list_checkpoints(root);
  const std::filesystem::path aside = checkpoint::set_aside(root, step);
  if (aside.empty()) {
    return "";
  }
  log::warn(
      "training {}; moved checkpoints of later steps, up to step {}, to {}{}; delete them if you "
      "do not need them",
      chosen.empty() ? "starts from the beginning" : fmt::format("continues from step {}", step),
      all.back().step,
      aside.string(),
      chosen.empty() ? " (--resume auto would have continued from them)" : "");
  return aside.string();
}

// Order: all workers restore first, then rank 0 moves later checkpoints aside. If rank 0 fails to
// restore, the checkpoints are still in their place.
std::optional<Checkpointing::Restored> Checkpointing::restore(Strategy& strategy) {
  is_sharded_ = strategy.pieces().has_value();
  if (is_sharded_ && !is_shared_) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot save checkpoints under -s {}: the run directory is not "
                            "visible to all workers, and no worker holds the entire state",
                            strategy.name()))
        .fact("directory", session_.run_dir.root().string(), "rank 0")
        .hint("--run-dir DIR on a shared file system, or --no-checkpoint");
  }
  Communicator& comm = *session_.communicator;
  const std::string directory = comm.rank() == 0
                                    ? tell_outcome(comm, [this] { return find_directory(); })
                                    : hear_outcome(comm, "resume");
  std::optional<Restored> restored;
  if (!directory.empty()) {
    restored = restore_from(directory, strategy);
  }
  if (comm.rank() == 0) {
    tell_outcome(comm, [&] { return set_aside_later(directory); });
  } else {
    hear_outcome(comm, "move checkpoints aside");
  }
  return restored;
}

// verified(): rank 0 has checked all checksums in find_directory(), and N workers need not read
// every byte again. With a partitioned strategy each worker reads only its own ranges of the
// tensors, so that the world size may differ from that of the checkpoint.
Checkpointing::Restored Checkpointing::restore_from(const std::string& directory,
                                                    Strategy& strategy) {
  const auto reader = CheckpointReader::verified(directory);
  std::unique_ptr<PieceSource> source = reader.pieces();
  const std::string saved = checkpoint::find_description(reader);
  if (is_sharded_) {
    apply_optimizer_options(optimizer_, description_, saved, source->description());
    strategy.restore(*source);
  } else {
    apply_model(model_, *source);
    apply_optimizer(optimizer_, collect_model(model_), saved, *source);
  }
  restore_random(reader.state(), *source);
  if (session_.communicator->rank() == 0) {
    log::info("resumed at step {} from {}", reader.state().step, directory);
  }
  return {.state = reader.state(), .directory = directory, .pieces = std::move(source)};
}

void Checkpointing::restore_random(const CheckpointState& state, const PieceSource& source) const {
  const int rank = session_.communicator->rank();
  const std::string name = random_name(session_.device, rank);
  if (state.world_size == session_.communicator->size() && source.has(name)) {
    at::Generator generator = at::globalContext().defaultGenerator(session_.device);
    generator.set_state(checkpoint::read_whole(source, name));
    return;
  }
  // Generator states belong to a rank. At another world size the workers start new sequences, with
  // a seed that no earlier step has used.
  seed_worker(session_, state.seed + static_cast<uint64_t>(state.step));
  if (rank == 0) {
    log::info("seeding random numbers again: the checkpoint has {} workers or another device",
              state.world_size);
  }
}

// Without a shared directory, rank 0 writes the generator states of all ranks.
std::vector<TensorPiece> Checkpointing::random_pieces() const {
  const Communicator& comm = *session_.communicator;
  const torch::Tensor mine = random_state(session_.device);
  if (is_shared_) {
    return as_pieces("", {{random_name(session_.device, comm.rank()), mine}});
  }
  const torch::Tensor all = session_.communicator->all_gather(mine);
  NamedTensors named;
  for (int rank = 0; comm.rank() == 0 && rank < comm.size(); ++rank) {
    named.emplace_back(random_name(session_.device, rank), all[rank]);
  }
  return as_pieces("", named);
}

// State that every worker holds is divided among the writers by size (share_of), so that a
// checkpoint is written with the bandwidth of all nodes. Partitioned state is written by its
// owners.
std::vector<TensorPiece> Checkpointing::my_pieces(const Strategy& strategy,
                                                  const std::vector<TensorPiece>& averages) const {
  const int rank = session_.communicator->rank();
  std::vector<TensorPiece> everywhere;
  std::vector<TensorPiece> mine;
  append(is_sharded_ ? mine : everywhere, averages);
  if (is_sharded_) {
    append(mine, *strategy.pieces());
  } else {
    const NamedTensors weights = collect_model(model_);
    append(everywhere, as_pieces(checkpoint::kModelPrefix, weights));
    append(everywhere, optimizer_pieces(optimizer_, weights));
  }
  if (rank < writers()) {
    append(mine, checkpoint::share_of(everywhere, rank, writers()));
  }
  append(mine, random_pieces());
  return mine;
}

// The sum of all sizes is needed on rank 0, which checks the free space before anything is written.
// Pruning of the previous save must have ended: it deletes directories in the same place.
std::string Checkpointing::begin_draft(int64_t step) {
  Communicator& comm = *session_.communicator;
  all_bytes_ = 0;
  for (const std::string& bytes : comm.all_gather_bytes(std::to_string(snapshot_.bytes()))) {
    all_bytes_ += std::stoull(bytes);
  }
  if (comm.rank() != 0) {
    return hear_outcome(comm);
  }
  return tell_outcome(comm, [&] {
    const std::filesystem::path root = session_.run_dir.checkpoints();
    wait_for_pruning();
    os::make_directories(root);
    checkpoint::remove_leftovers(root);
    checkpoint::require_space(root, step, all_bytes_);
    const std::string token = new_token();
    draft_ = std::make_unique<checkpoint::Draft>(root, step, token);
    return token;
  });
}

// The copy into the snapshot is the only part during which training stops. The thread then reads
// only the snapshot, `save` (a copy), the atomic fields of patience_, and members that the training
// thread does not touch until settle().
void Checkpointing::save(const CheckpointState& state,
                         const Strategy& strategy,
                         const std::vector<TensorPiece>& averages) {
  LOCKSTEP_CHECK(!thread_.joinable());
  // Each worker writes a part of the state that all workers hold identically. Buffers such as batch
  // norm statistics differ between workers until the next step; those of rank 0 are authoritative.
  if (const std::vector<torch::Tensor> buffers = model_.buffers(); !buffers.empty()) {
    session_.communicator->broadcast(buffers);
  }
  snapshot_.take(my_pieces(strategy, averages));
  const std::filesystem::path root = session_.run_dir.checkpoints();
  const std::string token = begin_draft(state.step);
  const int rank = session_.communicator->rank();
  directory_ = root / checkpoint::directory_name(state.step);
  if (rank >= writers()) {
    finished_ = std::chrono::steady_clock::now();
    return;
  }
  checkpoint::ShardedSave save{.root = root,
                               .partial = checkpoint::partial_path(root, state.step, token),
                               .state = state,
                               .rank = rank,
                               .writers = writers()};
  save.state.optimizer = description_;
  done_ = false;
  failure_ = nullptr;
  thread_ = std::jthread([this, save] { write(save); });
}

// Runs in the writing thread. No exception may leave it; settle() rethrows on the training thread.
// done_ is set last: a thread that reads it as true also sees failure_ and finished_.
void Checkpointing::write(const checkpoint::ShardedSave& save) {
  try {
    checkpoint::write_shard(save, snapshot_);
    if (save.rank == 0) {
      checkpoint::complete(save, *draft_, patience_);
      begin_pruning(save.root);
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  draft_.reset();
  finished_ = std::chrono::steady_clock::now();
  done_ = true;
}

// give_up shortens the wait of rank 0 for a part that will never come. The worker that failed
// throws its own Error, the others one that names its rank.
std::filesystem::path Checkpointing::settle(bool failed_elsewhere) {
  patience_.give_up = failed_elsewhere;
  if (thread_.joinable()) {
    thread_.join();
  }
  patience_.give_up = false;
  Communicator& comm = *session_.communicator;
  const std::vector<std::string> reasons = comm.all_gather_bytes(reason_of(failure_));
  if (failure_ != nullptr) {
    std::rethrow_exception(failure_);
  }
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (!reasons[rank].empty()) {
      throw Error(ExitCode::TryAgain,
                  fmt::format("cannot continue: rank {} could not save a checkpoint", rank))
          .fact("reason", reasons[rank], fmt::format("rank {}", rank));
    }
  }
  return directory_;
}

// Deleting a large checkpoint on a parallel file system can take longer than writing one; it must
// not delay the next step or the completion of this save.
void Checkpointing::begin_pruning(const std::filesystem::path& root) {
  try {
    pruning_ = std::jthread([root, keep = options_.retention] { prune(root, keep); });
  } catch (const std::system_error&) {
    prune(root, options_.retention);  // no thread available: prune synchronously
  }
}

void Checkpointing::wait_for_pruning() {
  if (pruning_.joinable()) {
    pruning_.join();
  }
}

// best.pt is a copy, not a link: the checkpoint that it comes from can be pruned by a later run.
void Checkpointing::publish_weights(const std::filesystem::path& directory) {
  if (session_.communicator->rank() != 0) {
    return;
  }
  wait_for_pruning();  // creates the link to the best checkpoint
  const std::filesystem::path root = session_.run_dir.root();
  const auto write = [&](const char* file, const PieceSource& source, std::string_view prefix) {
    checkpoint::write_pt(root / file, source, checkpoint::items_below(source, prefix));
  };
  const auto has_averages = [](const PieceSource& source) {
    return !checkpoint::items_below(source, checkpoint::kEmaPrefix).empty();
  };
  const auto last = CheckpointReader::verified(directory).pieces();
  write("model.pt", *last, checkpoint::kModelPrefix);
  if (has_averages(*last)) {
    write("ema.pt", *last, checkpoint::kEmaPrefix);
  }
  const std::filesystem::path link = session_.run_dir.checkpoints() / checkpoint::kBestLink;
  std::error_code unknown;
  if (std::filesystem::exists(link, unknown)) {
    const auto best = CheckpointReader::verified(link).pieces();
    // The same weights whose evaluation made it the best: the averages, if there are any.
    write(
        "best.pt", *best, has_averages(*best) ? checkpoint::kEmaPrefix : checkpoint::kModelPrefix);
  }
}

}  // namespace lockstep::train

// SPDX-License-Identifier: Apache-2.0
//
// One table for the command line of training programs, its help, and the strategies that support
// each option. Fields of an entry: names, type name, group in --help and field of Flags; help
// text; support, if not all strategies have it. Fields without a default in Flags stay
// std::nullopt: resolve() distinguishes "not given" from any value.
#include "training/train/options/option_table.h"

#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"

namespace lockstep::train {
namespace {

using strategy::Properties;
using enum Scope;

constexpr std::string_view kTraining = "Training";
constexpr std::string_view kExchange = "Gradient exchange";
constexpr std::string_view kHorovod = "Horovod (override HOROVOD_... variables)";
constexpr std::string_view kDeepspeed = "DeepSpeed";
constexpr std::string_view kOptimizer = "Optimizer";
constexpr std::string_view kFiles = "Files";
constexpr std::string_view kMachine = "Machine";

constexpr std::string_view kDetectsUnused = "it detects unused parameters in every step";
constexpr Support kOfHorovod = {Own, &Properties::has_horovod_options, Verify::WithoutStrategy};
constexpr Support of_horovod(std::string_view unverifiable, std::string_view neutral = {}) {
  Support support = kOfHorovod;
  support.unverifiable = unverifiable;
  support.neutral = neutral;
  return support;
}
constexpr Support kOfDeepspeed = {Selects, &Properties::has_deepspeed_config};

// The options of Horovod have the names of horovodrun, and those of DeepSpeed the names that
// deepspeed.add_config_arguments() adds, so that scripts can be reused.
constexpr auto kOptions = std::to_array<Option>({
    {{"-s,--strategy", "NAME", kTraining, &Flags::strategy},
     "Training strategy: {all} [{default}; {default_of_one} for one worker]"},
    {{"--epochs", "COUNT", kTraining, &Flags::epochs},
     "Number of passes over the training data",
     {.of_trainer = true}},
    {{"--steps", "COUNT", kTraining, &Flags::steps},
     "Maximum number of optimizer steps",
     {.of_trainer = true}},
    {{"--global-batch", "COUNT", kTraining, &Flags::global_batch},
     "Samples of all workers in one optimizer step",
     {.of_trainer = true}},
    {{"--batch-size", "COUNT", kTraining, &Flags::batch_size},
     "Samples of each worker in one optimizer step",
     {.of_trainer = true}},
    {{"--accumulate,--backward-passes-per-step", "COUNT", kTraining, &Flags::accumulate},
     "Micro-batches per optimizer step on each worker",
     {.of_trainer = true, .unverifiable = "both with and without accumulation are tested"}},
    {{"--clip,--clip-norm", "NORM", kTraining, &Flags::clip_norm},
     "Clip the norm of the gradient to this value",
     {.of_trainer = true, .unverifiable = "both with and without clipping are tested"}},
    {{"--precision", "fp32|bf16|fp16|fp8", kTraining, &Flags::precision},
     "Precision of the computation [fp32]",
     {.neutral = "fp32", .unverifiable = "the types are fixed"}},
    {{"--loss-scale", "SCALE", kTraining, &Flags::loss_scale},
     "Loss scaling: none, dynamic, or a fixed factor [dynamic with fp16, otherwise none]",
     {.of_trainer = true, .unverifiable = "the types are fixed"}},
    {{"--ema", "DECAY", kTraining, &Flags::ema},
     "Evaluate and save a moving average of the weights with this decay",
     {.of_trainer = true, .unverifiable = "only trained weights are compared"}},
    {{"--sync-batchnorm", "", kTraining, &Flags::sync_batchnorm},
     "Compute batch norm statistics over all workers"},
    {{"--recompute", "", kTraining, &Flags::recompute},
     "Recompute activations in backward to save memory"},
    {{"--verify-strategies", "", kTraining, &Flags::verify_strategies},
     "Compare every strategy with one process over --steps steps [50], with 1 to all workers; exit "
     "with 1 if a result differs"},
    {{"--tail", "drop|pad", kTraining, &Flags::tail},
     "Treatment of an incomplete last batch: drop its samples, or pad it",
     {.of_trainer = true}},
    {{"--seed", "NUMBER", kTraining, &Flags::seed},
     "Random seed of weights, sample order and dropout"},
    {{"--early-stop", "COUNT", kTraining, &Flags::early_stop},
     "Stop after this many evaluations without a lower test loss",
     {.of_trainer = true}},

    {{"--compression", "NAME", kExchange, &Flags::compression},
     "Gradient compression: none, fp16, bf16, powersgd ({powersgd} only) [none]",
     {.scope = Shared,
      .property = &Properties::has_compression,
      .neutral = "none",
      .reason = "\"communication_data_type\" in ds_config.json selects the type of gradients",
      .unverifiable = "it rounds gradients"}},
    {{"--powersgd-rank", "COUNT", kExchange, &Flags::powersgd_rank},
     "Rank of the PowerSGD matrices [1]"},
    {{"--powersgd-start", "STEPS", kExchange, &Flags::powersgd_start},
     "Uncompressed steps before PowerSGD starts [10]"},
    {{"--bucket-mb", "MIB", kExchange, &Flags::bucket_mb},
     "Size of a gradient bucket [25]",
     {.scope = Shared,
      .property = &Properties::has_buckets,
      .reason = "it uses a fusion buffer",
      .instead = "--fusion-threshold-mb {value}"}},
    {{"--no-overlap", "", kExchange, &Flags::no_overlap},
     "Exchange gradients after backward instead of during it",
     {.scope = Shared,
      .property = &Properties::has_overlap,
      .reason = "it never exchanges gradients during backward"}},
    {{"--find-unused-parameters", "", kExchange, &Flags::find_unused},
     "{strategies}: allow parameters that are not used in every step",
     {.scope = Shared, .property = &Properties::has_find_unused, .reason = kDetectsUnused}},
    {{"--static-graph", "", kExchange, &Flags::static_graph},
     "{strategies}: assume that every step uses the same parameters",
     {.scope = Shared, .property = &Properties::has_static_graph, .reason = kDetectsUnused}},
    {{"--replicas", "COUNT", kExchange, &Flags::replicas},
     "{strategies}: model replicas in one process [one per GPU]",
     {.scope = OwnSetup,
      .property = &Properties::has_replicas_in_process,
      .neutral = "1",
      .instead = "-s {strategies}, or lockstep run --nproc-per-node {value}",
      .unverifiable = "each process must be one worker"}},
    {{"--auto-shard", "NAME", kExchange, &Flags::auto_shard},
     "{strategies}: sharding of the data: data, file, auto or off [data]",
     {.scope = OwnSetup,
      .property = &Properties::has_replicas_in_process,
      .instead = "-s {strategies}; all other strategies use --auto-shard data",
      .unverifiable = "every strategy must see the same batches"}},
    {{"--zero-stage", "0|1|2|3", kExchange, &Flags::zero_stage},
     "{strategies}: partition nothing (0), the optimizer state (1), also gradients (2), also "
     "parameters (3) [0]",
     {Own, &Properties::has_zero_stages, Verify::Always}},
    {{"--collective", "NAME", kExchange, &Flags::collective},
     "{strategies}: all-reduce: ring (Gloo), nccl or auto [auto]",
     {.scope = OwnSetup,
      .property = &Properties::has_replicas_in_process,
      .verify = Verify::WithoutStrategy,
      .instead = "--transport {transport}"}},

    {{"--reduction", "NAME", kHorovod, &Flags::reduction},
     "Reduction of gradients: average, sum or adasum [average]",
     of_horovod("it changes the training", "average")},
    {{"--fp16-allreduce", "", kHorovod, &Flags::fp16_allreduce},
     "Alias of --compression fp16 ({strategies})",
     of_horovod("it rounds gradients")},
    {{"--use-adasum", "", kHorovod, &Flags::use_adasum},
     "Alias of --reduction adasum ({strategies})",
     of_horovod("it changes the training")},
    {{"--fusion-threshold-mb", "MIB", kHorovod, &Flags::fusion_threshold_mb},
     "Size of the fusion buffer; 0: send each tensor separately [128]",
     kOfHorovod},
    {{"--cycle-time-ms", "MS", kHorovod, &Flags::cycle_time_ms},
     "Cycle time between two rounds of negotiation [1]",
     kOfHorovod},
    {{"--cache-capacity", "COUNT", kHorovod, &Flags::cache_capacity},
     "Capacity of the response cache in tensors; 0: no cache [1024]",
     kOfHorovod},
    {{"--gradient-predivide-factor", "FACTOR", kHorovod, &Flags::predivide_factor},
     "Divide gradients by this factor before the sum, and by workers/factor after it [1]",
     kOfHorovod},
    {{"--timeline-filename", "FILE", kHorovod, &Flags::timeline},
     "Write a Chrome trace of all tensors to this file",
     kOfHorovod},
    {{"--autotune", "", kHorovod, &Flags::autotune},
     "Tune fusion buffer and cycle time during training",
     kOfHorovod},

    {{"--deepspeed", "", kDeepspeed, &Flags::deepspeed},
     "Alias of -s {strategies} ({strategies})",
     kOfDeepspeed},
    {{"--deepspeed_config,--deepspeed-config", "FILE", kDeepspeed, &Flags::deepspeed_config},
     "DeepSpeed configuration file (ds_config.json); implies -s {strategies}",
     kOfDeepspeed},

    {{"--optimizer", "NAME", kOptimizer, &Flags::optimizer},
     "Optimizer: sgd, adam, adamw, lamb, adagrad or muon"},
    {{"--lr", "RATE", kOptimizer, &Flags::lr}, "Learning rate"},
    {{"--scale-lr", "NAME", kOptimizer, &Flags::scale_lr},
     "Scale the learning rate with the number of workers: none, linear, sqrt [none]"},
    {{"--momentum", "FACTOR", kOptimizer, &Flags::momentum}, "Momentum of sgd"},
    {{"--weight-decay", "FACTOR", kOptimizer, &Flags::weight_decay}, "Weight decay"},
    {{"--schedule", "NAME", kOptimizer, &Flags::schedule},
     "Learning rate schedule: constant, step, cosine",
     {.of_trainer = true}},
    {{"--warmup", "STEPS", kOptimizer, &Flags::warmup},
     "Steps of linear learning rate warm-up",
     {.of_trainer = true}},

    {{"--data-dir", "DIR", kFiles, &Flags::data_dir},
     "Directory of data sets [$LOCKSTEP_DATA_DIR, or ./data]"},
    {{"--run-dir", "DIR", kFiles, &Flags::run_dir},
     "Directory of events and checkpoints [that of lockstep run, or ./runs/...]"},
    {{"--resume", "WHAT", kFiles, &Flags::resume},
     "Checkpoint to resume from: none, auto (the newest undamaged one of the run directory), or a "
     "directory [none; auto after a restart]",
     {.of_trainer = true, .unverifiable = "the initial weights of the program are used"}},
    {{"--checkpoint-every", "STEPS", kFiles, &Flags::checkpoint_every},
     "Steps between checkpoints, in addition to the end of each epoch",
     {.of_trainer = true}},
    {{"--keep", "COUNT", kFiles, &Flags::keep},
     "Number of checkpoints to keep in addition to the best [3]",
     {.of_trainer = true}},
    {{"--keep-for", "TIME", kFiles, &Flags::keep_for},
     "Also keep checkpoints younger than this: 90s, 30m, 12h, 7d",
     {.of_trainer = true}},
    {{"--checkpoint-async", "", kFiles, &Flags::checkpoint_async},
     "Write checkpoints during training [on]"},
    {{"--no-checkpoint-async", "", kFiles, &Flags::checkpoint_async},
     "Suspend training until each checkpoint is on disk"},
    {{"--no-checkpoint", "", kFiles, &Flags::no_checkpoint},
     "Write no checkpoints and no final weights"},
    {{"--validate-every", "STEPS", kFiles, &Flags::validate_every},
     "Steps between validations [one epoch]",
     {.of_trainer = true}},
    {{"--no-validation", "", kFiles, &Flags::no_validation}, "Train without validation"},

    {{"--device", "NAME", kMachine, &Flags::device}, "Device: auto, cpu or cuda [auto]"},
    {{"--transport", "NAME", kMachine, &Flags::transport},
     "Communication backend: auto, shared-memory, gloo, node-first, mpi or nccl [auto: nccl "
     "between GPUs; otherwise mpi under mpirun and srun --mpi=pmix, shared-memory on one node, "
     "node-first on nodes with equal numbers of workers, otherwise gloo]"},
    {{"--conv", "NAME", kMachine, &Flags::convolution},
     "Kernel for CPU convolutions: onednn, im2col, or auto (the faster on the first batch) [auto]"},
    {{"--cuda-graph", "NAME", kMachine, &Flags::cuda_graph},
     "Record a step as a CUDA graph and replay it: on, off, or auto (if possible) [auto]"},
    {{"--loader-threads,--num-workers", "COUNT", kMachine, &Flags::loader_threads},
     "Threads that prepare batches; 0: none; auto: from the allocated cores"},
    {{"--jpeg", "NAME", kMachine, &Flags::jpeg},
     "Decoder of JPEG files: cpu, gpu (nvJPEG), or auto (the faster one) [auto]"},
    {{"--timeout", "SECONDS", kMachine, &Flags::timeout},
     "Maximum time to wait for other workers [600]"},
    {{"--stall-warning", "SECONDS", kMachine, &Flags::stall_warning},
     "Waiting time before a warning about stalled workers; 0: never [10]"},
    {{"--report-every", "SECONDS", kMachine, &Flags::report_every},
     "Time between progress lines if the output is not a terminal"},
});

template <typename T>
std::string value_text(const T& value) {
  if constexpr (requires { value.has_value(); }) {
    return value_text(*value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return "";
  } else if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("{:g}", value);
  } else {
    return fmt::format("{}", value);
  }
}

}  // namespace

std::span<const Option> option_table() {
  return kOptions;
}

std::optional<std::string> find_value(const Option& option, const Flags& flags) {
  return std::visit(
      [&](auto field) -> std::optional<std::string> {
        if (flags.*field == Flags().*field) {
          return std::nullopt;
        }
        std::string value = value_text(flags.*field);
        const bool is_neutral = !value.empty() && value == option.support.neutral;
        return is_neutral ? std::nullopt : std::optional(std::move(value));
      },
      option.syntax.field);
}

// The default strategy depends only on whether there is more than one worker: 2 stands for any such
// number.
std::string help_text(const Option& option) {
  const auto names = [](strategy::Property property) {
    return property == nullptr ? "" : join(strategy::names_with(property), ", ");
  };
  return fmt::format(fmt::runtime(option.text),
                     fmt::arg("strategies", names(option.support.property)),
                     fmt::arg("all", join(contract::strategy_names(), ", ")),
                     fmt::arg("powersgd", names(&Properties::has_powersgd)),
                     fmt::arg("default", strategy::default_name(2)),
                     fmt::arg("default_of_one", strategy::default_name(1)));
}

}  // namespace lockstep::train

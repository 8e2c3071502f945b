// SPDX-License-Identifier: Apache-2.0
//
// The same structure as gpt2.cpp, with two measurements of lockstep: a custom loop, which is
// comparable with the loop of the peer step by step (same weights, same images, same losses), and
// the Trainer with its defaults, which is what users run. Images are on the device, so that the
// loader does not limit.
#include <fmt/format.h>
#include <map>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "common/base/median.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/models.h"
#include "lockstep/optimizer.h"
#include "lockstep/trainer.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/commands.h"
#include "tools/bench/curve.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"
#include "tools/bench/step_timer.h"
#include "tools/bench/timed_training.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kBatches = 8;
// The median of three blocks: one disturbance does not change the result.
constexpr int kBlocks = 3;
constexpr int kPartSteps = 3;
constexpr int64_t kClasses = 1000;
constexpr int64_t kSeenClasses = 100;

struct Figures {
  double trainer_seconds = 0;  // per step, under the Trainer with default options
  double loop_seconds = 0;     // per step, in a custom loop without a CUDA graph
  Parts parts;
  std::vector<double> losses;
  std::optional<uint64_t> peak;
  Ceilings ceilings;
  std::string device;
};

// Multiplications of a forward pass of one image of 224 x 224, from the documentation of
// torchvision. Each counts as two operations, and the backward pass needs twice as many.
double flops_per_image(const ResnetBenchOptions& options) {
  static const std::map<std::string, double> kMultiplications{{"resnet18", 1.814e9},
                                                              {"resnet34", 3.664e9},
                                                              {"resnet50", 4.089e9},
                                                              {"resnet101", 7.801e9},
                                                              {"resnet152", 11.514e9}};
  // The two strides of the stem divide the pixels of every later layer by 16.
  const double stem = options.small_images ? 16 : 1;
  const double share = stem * static_cast<double>(options.size * options.size) / (224.0 * 224.0);
  return 6 * kMultiplications.at(options.net) * share;
}

// Images as bytes [batches x N, 3, size, size] and their classes. Each class has a coarse pattern
// with noise, so that the model can learn it. Generated in pieces of one batch: all float images at
// once would need four times the memory of the bytes. Channels-last, the format in which GPU
// convolutions are fastest.
Batch draw_images(const ResnetBenchOptions& options, torch::Device device) {
  torch::manual_seed(1);
  const int64_t count = kBatches * options.batch;
  const auto floats = torch::dtype(torch::kFloat32).device(device);
  const torch::Tensor targets =
      torch::randint(kSeenClasses, {count}, torch::dtype(torch::kInt64)).to(device);
  const torch::Tensor patterns = torch::randn({kSeenClasses, 3, 7, 7}).to(device) * 40;
  std::vector<torch::Tensor> parts;
  for (int64_t begin = 0; begin < count; begin += options.batch) {
    const torch::Tensor coarse = patterns.index_select(0, targets.narrow(0, begin, options.batch));
    const torch::Tensor images =
        at::upsample_nearest2d(coarse, {options.size, options.size}) +
        torch::randn({options.batch, 3, options.size, options.size}, floats) * 40 + 128;
    parts.push_back(
        images.clamp(0, 255).to(torch::kUInt8).contiguous(torch::MemoryFormat::ChannelsLast));
  }
  return {torch::cat(parts).contiguous(torch::MemoryFormat::ChannelsLast), targets};
}

// The seed is fixed: the custom loop and the Trainer start from the same weights, and the peer
// loads those of the loop.
std::shared_ptr<ImageClassifier> make_net(const ResnetBenchOptions& options) {
  torch::manual_seed(2);
  return resnet(options.net, {.classes = kClasses, .small_images = options.small_images});
}

// The same values as in benchmarks/peers/resnet.py; otherwise the loss curves would differ.
OptimizerOptions optimizer_options() {
  return {.name = "sgd", .lr = 0.02, .momentum = 0.9, .weight_decay = 5e-5};
}

// Repeats eight batches; 100 of the 1000 classes occur, so that the loss falls within a few steps
// and a wrong gradient is visible.
void measure_loop(Session& session,
                  const ResnetBenchOptions& options,
                  const Batch& images,
                  Figures& figures) {
  const auto net = make_net(options);
  if (!options.save_weights.empty()) {
    save_weights(options.save_weights, collect_model(*net));
  }
  net->to(session.device());
  net->train();
  std::vector<Batch> batches;
  for (int64_t i = 0; i < kBatches; ++i) {
    batches.push_back(images.slice(i * options.batch, (i + 1) * options.batch));
  }
  TimedTraining training(session,
                         net,
                         session.make_optimizer(net->parameters(), optimizer_options()),
                         loss_of<ImageClassifier>(CrossEntropy()),
                         batches,
                         options.warmup + kBlocks * options.steps);
  forget_peak(training.device());
  training.run(options.warmup);
  std::vector<double> blocks;
  for (int block = 0; block < kBlocks; ++block) {
    blocks.push_back(seconds_of(training.device(), [&] { training.run(options.steps); }) /
                     static_cast<double>(options.steps));
  }
  figures.loop_seconds = median(blocks);
  figures.peak = peak_bytes(training.device());
  figures.parts = training.run_by_parts(kPartSteps);
  figures.losses = training.losses();
}

// Each block is one call of fit() with its own warm-up, in which algorithms are selected and a CUDA
// graph is recorded.
double measure_trainer(Session& session, const ResnetBenchOptions& options, const Batch& images) {
  const auto net = make_net(options);
  const auto optimizer = session.make_optimizer(net->parameters(), optimizer_options());
  std::vector<double> blocks;
  const int64_t steps = options.warmup + options.steps;
  for (int block = 0; block < kBlocks; ++block) {
    StepTimer timer(session.device(), options.warmup, options.steps);
    Trainer trainer(session,
                    // More epochs than needed; the number of steps ends the training.
                    {.epochs = steps / kBatches + 1,
                     .steps = steps,
                     .global_batch = options.batch,
                     .precision = options.precision,
                     .checkpoint_every = -1});
    trainer.add(std::make_unique<TimerCallback>(timer));
    fit_silently(trainer, *net, *optimizer, tensors(images.input, images.target));
    blocks.push_back(timer.microseconds_per_step() * 1e-6);
  }
  return median(blocks);
}

// Everything of one measurement is freed before the next one, in which it would take memory: the
// loop before the Trainer, the images before the limits, all before the peer in another process.
Figures measure(Session& session, const ResnetBenchOptions& options) {
  Figures figures;
  figures.device = session.device().str();
  {
    const Batch images = draw_images(options, session.device());
    if (!options.save_images.empty()) {
      save_weights(options.save_images, {{"images", images.input}, {"targets", images.target}});
    }
    measure_loop(session, options, images, figures);
    release_memory(session.device());
    figures.trainer_seconds = measure_trainer(session, options, images);
  }
  release_memory(session.device());
  figures.ceilings = measure_ceilings(
      session.device(), options.precision == "bf16" ? torch::kBFloat16 : torch::kFloat32);
  release_memory(session.device());
  return figures;
}

nlohmann::json run_resnet_peer(const ResnetBenchOptions& options,
                               const std::filesystem::path& script,
                               const std::string& device,
                               const std::string& mode) {
  std::vector<std::string> words = {"--net",
                                    options.net,
                                    "--batch",
                                    std::to_string(options.batch),
                                    "--steps",
                                    std::to_string(options.steps),
                                    "--warmup",
                                    std::to_string(options.warmup),
                                    "--precision",
                                    options.precision,
                                    "--device",
                                    device.starts_with("cuda") ? "cuda" : "cpu",
                                    "--mode",
                                    mode,
                                    "--weights",
                                    options.save_weights.string(),
                                    "--images",
                                    options.save_images.string()};
  if (options.small_images) {
    words.emplace_back("--small-images");
  }
  return run_peer(options.common.python, script, words);
}

void print(const ResnetBenchOptions& options,
           const Ceilings& ceilings,
           const nlohmann::json& json) {
  const nlohmann::json& ours = json.at("lockstep");
  const nlohmann::json theirs = json.value("peer", nlohmann::json::object());
  const double flops = json.at("flops_per_image");
  const auto row = [&](const char* name, const char* key, double factor, int digits) -> Row {
    const auto times = [factor](const std::optional<double>& value) {
      return value ? std::optional(*value * factor) : std::nullopt;
    };
    return {name, times(find_figure(ours, key)), times(find_figure(theirs, key)), digits};
  };
  std::vector<Row> rows = {
      row("images/s", "images_per_second", 1, 0),
      row("ms per step", "ms_per_step", 1, 2),
      row("ms per step, custom loop", "loop_ms", 1, 2),
      row("  forward", "forward_ms", 1, 2),
      row("  backward", "backward_ms", 1, 2),
      row("  optimizer", "update_ms", 1, 2),
      row("TFLOP/s", "images_per_second", flops / 1e12, 3),
      row("% of the matrix rate", "images_per_second", 1e2 * flops / ceilings.matrix_rate, 1),
      row("peak memory, GiB", "peak_bytes", 1.0 / (1 << 30), 2),
  };
  const std::vector<Row> losses = loss_rows(ours, theirs);
  rows.insert(rows.end(), losses.begin(), losses.end());
  fmt::print("{}, {} images of {} x {} per step, on the device, {}, sgd, {}\n\n",
             options.net,
             options.batch,
             options.size,
             options.size,
             options.precision,
             json.at("device").get<std::string>());
  const std::string name =
      theirs.empty() ? "" : fmt::format("PyTorch {}", theirs.value("mode", "peer"));
  fmt::print("{}\n", format_rows(rows, name));
  fmt::print("matrix rate     {:.3f} TFLOP/s ({} x {})\ncopy bandwidth  {:.1f} GB/s\n",
             ceilings.matrix_rate / 1e12,
             ceilings.matrix_side,
             ceilings.matrix_side,
             ceilings.copy_bandwidth / 1e9);
  if (json.contains("eager")) {
    fmt::print("PyTorch eager   {:.0f} images/s\n",
               find_figure(json.at("eager"), "images_per_second").value_or(0));
  }
  if (json.contains("largest_loss_difference")) {
    fmt::print("loss curves     maximum difference from {} {:.6f}, at step {}\n",
               json.contains("eager") ? "PyTorch eager" : "the peer",
               json.at("largest_loss_difference").get<double>(),
               json.at("largest_loss_difference_step").get<size_t>());
  }
}

void report(const ResnetBenchOptions& options,
            const Figures& figures,
            const nlohmann::json& peer,
            const nlohmann::json& eager) {
  const auto batch = static_cast<double>(options.batch);
  nlohmann::json json = {{"what", "resnet50"},
                         {"net", options.net},
                         {"batch", options.batch},
                         {"size", options.size},
                         {"small_images", options.small_images},
                         {"precision", options.precision},
                         {"steps", options.steps},
                         {"warmup", options.warmup},
                         {"device", figures.device},
                         {"matrix_rate", figures.ceilings.matrix_rate},
                         {"copy_bandwidth", figures.ceilings.copy_bandwidth},
                         {"flops_per_image", flops_per_image(options)},
                         {"lockstep",
                          {{"images_per_second", batch / figures.trainer_seconds},
                           {"ms_per_step", 1e3 * figures.trainer_seconds},
                           {"loop_ms", 1e3 * figures.loop_seconds},
                           {"forward_ms", figures.parts.forward},
                           {"backward_ms", figures.parts.backward},
                           {"update_ms", figures.parts.update},
                           {"losses", figures.losses}}}};
  if (figures.peak) {
    json["lockstep"]["peak_bytes"] = *figures.peak;
  }
  if (!peer.empty()) {
    json["peer"] = peer;
  }
  if (!eager.empty()) {
    json["eager"] = eager;
  }
  const nlohmann::json& other = eager.empty() ? peer : eager;
  if (!other.empty()) {
    const Difference difference = compare(figures.losses, losses_of(other));
    json["largest_loss_difference"] = difference.largest;
    json["largest_loss_difference_step"] = difference.step;
  }
  print(options, figures.ceilings, json);
  if (!options.curve.empty()) {
    write_curve(options.curve, figures.losses, losses_of(other));
  }
  if (!options.common.json.empty()) {
    os::write_file(options.common.json, json.dump(1) + "\n");
  }
}

}  // namespace

int measure_resnet(const ResnetBenchOptions& asked) {
  ResnetBenchOptions options = asked;
  std::optional<os::TemporaryDirectory> scratch;
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("resnet", options.common.python);
    scratch.emplace("lockstep-bench-resnet");
    options.save_weights = scratch->path() / "weights.pt";
    options.save_images = scratch->path() / "images.pt";
  }
  std::vector<std::string> flags = {
      "--device", options.common.device, "--precision", options.precision};
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  Figures figures;
  const int code =
      in_session(flags, [&](Session& session) { figures = measure(session, options); });
  if (code != 0) {
    return code;
  }
  nlohmann::json peer = nlohmann::json::object();
  nlohmann::json eager = nlohmann::json::object();
  if (options.common.peer) {
    try {
      peer = run_resnet_peer(options, script, figures.device, options.peer_mode);
      // The loss curve is compared with eager mode, the reference for numerical results.
      if (peer.value("mode", "") != "eager") {
        eager = run_resnet_peer(options, script, figures.device, "eager");
      }
    } catch (const Error&) {
      report(options, figures, peer, eager);  // the results of lockstep are not lost
      throw;
    }
  }
  report(options, figures, peer, eager);
  return 0;
}

}  // namespace lockstep::bench

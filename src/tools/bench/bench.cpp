// SPDX-License-Identifier: Apache-2.0
//
// The command line of lockstep-bench. Each add_... function defines one subcommand; its options
// live in a shared_ptr that the callback captures, because CLI11 keeps pointers to them until
// parsing is done. The callback stores the exit code of the measurement in `code`.
#include "tools/bench/bench.h"

#include <fmt/format.h>
#include <memory>

#include "tools/bench/commands.h"
#include "tools/tool.h"

namespace lockstep::bench {
namespace {

constexpr const char* kPeer =
    "--peer also runs the measurement in Python with PyTorch, on the same device.";

constexpr const char* kPeerOfTraining =
    "--peer also runs the measurement in Python with PyTorch, after that of lockstep:\n"
    "on the same device, with the same weights and data.";

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    success\n"
    "  64   invalid or conflicting options\n"
    "  69   the Python peer is unavailable\n"
    "  70   internal error: a bug in lockstep\n"
    "  74   a file could not be read or written";

// CLI11 copies the footer of the program to its subcommands, so each of them needs its own.
void add_footer(CLI::App& app, const char* peer, const char* examples) {
  app.footer(fmt::format("{}\ndocs/bench.md defines every result.\n\nExamples:\n{}\n\n{}",
                         peer,
                         examples,
                         kExitCodes));
}

// The range check of CLI11 would print the largest possible number as upper bound.
CLI::Validator at_least(double minimum) {
  return CLI::Validator(
      [minimum](const std::string& text) {
        double number = 0;
        const bool is_enough = CLI::detail::lexical_cast(text, number) && number >= minimum;
        return is_enough ? std::string() : fmt::format("{} is less than {:g}", text, minimum);
      },
      "");
}

// --flag=--cuda-graph needs the '=': CLI11 would take the next word for an option of its own.
void add_common(CLI::App& app, CommonOptions& options) {
  app.add_option("--device", options.device, "Device: auto, cpu or cuda [auto]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--json", options.json, "Write all results as JSON to FILE")->type_name("FILE");
  app.add_option("--flag",
                 options.flags,
                 "Pass FLAG to the training, as in --flag=--cuda-graph; can be repeated")
      ->type_name("FLAG")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--peer", options.peer, "Also measure the Python peer");
  app.add_option("--python",
                 options.python,
                 "Python of the peer [python3, or /usr/bin/python3 if only that has torch]")
      ->type_name("PROGRAM");
}

// After all other options of `command`: those that a sweep would ignore are rejected. A sweep
// chooses these values itself; silently ignoring an option would be misleading.
void add_sweep(CLI::App& command, Gpt2BenchOptions& options) {
  CLI::Option* sweep =
      command
          .add_flag(
              "--sweep", options.sweep, "Find the fastest precision, recomputation and batch size")
          ->excludes("--peer");
  for (const char* ignored : {"--batch",
                              "--precision",
                              "--recompute",
                              "--steps",
                              "--warmup",
                              "--strategy",
                              "--curve",
                              "--save-weights",
                              "--tokens",
                              "--save-tokens"}) {
    sweep->excludes(ignored);
  }
  command
      .add_option("--largest-batch", options.largest_batch, "Largest batch size of --sweep [512]")
      ->type_name("COUNT")
      ->check(at_least(1))
      ->needs(sweep);
}

void add_peer_mode(CLI::App& command, std::string& mode) {
  command
      .add_option("--peer-mode",
                  mode,
                  "Mode of the peer: compile, compile-graph (torch.compile with CUDA graphs) or "
                  "eager [compile]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"compile", "compile-graph", "eager"}));
}

// --lr excludes --peer, whose learning rate is fixed in its source: the loss curves would differ.
void add_gpt2(CLI::App& app, int& code) {
  const auto options = std::make_shared<Gpt2BenchOptions>();
  CLI::App* command = app.add_subcommand("gpt2", "Measure the training throughput of GPT-2");
  command->add_option("--size", options->size, "Model size: tiny, 124M, 355M, 774M or 1.5B [124M]")
      ->type_name("NAME");
  command->add_option("--batch", options->batch, "Sequences per step [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option(
          "--context", options->context, "Tokens per sequence [context length of the model]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--precision",
                   options->precision,
                   "Precision: bf16, fp8 or fp32; with fp8, the peer uses bf16 [bf16]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bf16", "fp8", "fp32"}));
  command->add_option("--steps", options->steps, "Steps per timed block; there are three [20]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Warm-up steps [5]")
      ->type_name("COUNT")
      ->check(at_least(0));
  command
      ->add_option("--optimizer", options->optimizer, "Optimizer: adamw, adam, sgd or muon [adamw]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"adamw", "adam", "sgd", "muon"}));
  command
      ->add_option("-s,--strategy", options->strategy, "Strategy, as in training programs [single]")
      ->type_name("NAME");
  add_common(*command, options->common);
  add_peer_mode(*command, options->peer_mode);
  command->add_option("--curve", options->curve, "Write losses to FILE as CSV: step,loss[,peer]")
      ->type_name("FILE");
  command->add_option("--weights", options->weights, "Load the initial weights from FILE")
      ->type_name("FILE");
  command
      ->add_option(
          "--save-weights", options->save_weights, "Write the initial weights to FILE (.pt)")
      ->type_name("FILE");
  command->add_option("--tokens", options->tokens, "Train on a file of --save-tokens")
      ->type_name("FILE");
  command
      ->add_option(
          "--save-tokens", options->save_tokens, "Write the tokens to FILE, int64 without header")
      ->type_name("FILE");
  command->add_option("--lr", options->lr, "Constant learning rate [0.0006; muon: 0.02]")
      ->type_name("RATE")
      ->check(at_least(0))
      ->excludes("--peer");
  command->add_flag(
      "--recompute", options->recompute, "Recompute blocks in backward to save memory");
  add_sweep(*command, *options);
  add_footer(*command,
             kPeerOfTraining,
             "  lockstep-bench gpt2 --batch 64 --peer\n"
             "  lockstep-bench gpt2 --sweep");
  command->callback(
      [options, &code] { code = options->sweep ? sweep_gpt2(*options) : measure_gpt2(*options); });
}

// --until is the same number as --accuracy, but selects the role of the child process.
// StepTimer starts its clock after the last warm-up step, so there must be at least one.
void add_mnist(CLI::App& app, int& code) {
  const auto options = std::make_shared<MnistBenchOptions>();
  CLI::App* command = app.add_subcommand(
      "mnist", "Measure the throughput of a bare loop and of the Trainer on MNIST");
  command->add_option("--net", options->net, "Network: cnn, classic or mlp [cnn]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cnn", "classic", "mlp"}));
  command->add_option("--batch", options->batch, "Images per step [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--steps", options->steps, "Steps per timed block [500]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Warm-up steps before each block [50]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--accuracy",
                   options->accuracy,
                   "Measure the time from the command to this test accuracy, in percent")
      ->type_name("PERCENT")
      ->check(at_least(1));
  command->add_flag(
      "--generated-digits", options->generated, "Use generated digits instead of MNIST");
  command->add_option("--data-dir", options->data_dir, "Data directory with MNIST [data]")
      ->type_name("DIR");
  command->add_option("--until", options->until)
      ->group("");  // internal: for the child process that is timed
  add_common(*command, options->common);
  add_footer(*command,
             kPeer,
             "  lockstep-bench mnist --device cuda --peer\n"
             "  lockstep-bench mnist --accuracy 99 --peer");
  command->callback([options, &code] {
    if (options->until > 0) {
      code = train_to_accuracy(*options);
    } else if (options->accuracy > 0) {
      code = measure_mnist_accuracy(*options);
    } else {
      code = measure_mnist(*options);
    }
  });
}

// The network divides width and height by 32. With an image of 32 pixels, the last batch norm sees
// one pixel per image, and its variance needs two values: hence the minimum of two images.
// StepTimer starts its clock after the last warm-up step, so there must be one.
void add_resnet(CLI::App& app, int& code) {
  const auto options = std::make_shared<ResnetBenchOptions>();
  CLI::App* command = app.add_subcommand("resnet50", "Measure the training throughput of a ResNet");
  command->add_option("--net", options->net, "Network: resnet18, 34, 50, 101 or 152 [resnet50]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}));
  command->add_option("--batch", options->batch, "Images per step [256]")
      ->type_name("COUNT")
      ->check(at_least(2));
  command->add_option("--size", options->size, "Width and height of an image in pixels [224]")
      ->type_name("COUNT")
      ->check(at_least(32));
  command->add_flag("--small-images",
                    options->small_images,
                    "Use a 3x3 stem without pooling, as for TinyImageNet");
  command->add_option("--precision", options->precision, "Precision: bf16 or fp32 [bf16]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  command->add_option("--steps", options->steps, "Steps per timed block; there are three [20]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Warm-up steps [8]")
      ->type_name("COUNT")
      ->check(at_least(1));
  add_common(*command, options->common);
  add_peer_mode(*command, options->peer_mode);
  command->add_option("--curve", options->curve, "Write losses to FILE as CSV: step,loss[,peer]")
      ->type_name("FILE");
  add_footer(*command, kPeerOfTraining, "  lockstep-bench resnet50 --peer");
  command->callback([options, &code] { code = measure_resnet(*options); });
}

// Zero threads means that batches are made in the thread that asks for them.
void add_loader(CLI::App& app, int& code) {
  const auto options = std::make_shared<LoaderBenchOptions>();
  CLI::App* command =
      app.add_subcommand("loader", "Measure the throughput of decoding JPEG files into batches");
  CLI::Option* data_dir =
      command
          ->add_option("--data-dir",
                       options->data_dir,
                       "Data directory with ImageNet, as files or packs [generated images]")
          ->type_name("DIR");
  command
      ->add_flag(
          "--tiny", options->is_tiny, "Read TinyImageNet instead of ImageNet from --data-dir")
      ->needs(data_dir);
  command
      ->add_flag("--generated",
                 options->is_generated,
                 "Use generated images; the default without --data-dir")
      ->excludes(data_dir);
  command
      ->add_option(
          "--images", options->images, "Number of images, evenly spread over the data set [1000]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--size", options->size, "Width and height of an image in pixels [224]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--batch", options->batch, "Images per batch [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--threads",
                   options->threads,
                   "Numbers of threads, separated by commas [1 and number of cores]")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(at_least(0));
  command->add_option("--seconds", options->seconds, "Duration of each of three rounds [2]")
      ->type_name("SECONDS")
      ->check(at_least(0.001));
  command
      ->add_option("--jpeg", options->jpeg, "Decoder: cpu, or gpu (nvJPEG), without the peer [cpu]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  add_common(*command, options->common);
  add_footer(*command,
             "--peer also measures the loader of torchvision on the same files.",
             "  lockstep-bench loader --data-dir data --peer");
  command->callback([options, &code] { code = measure_loader(*options); });
}

// Without --workers this process is itself a worker, alone or under a launcher.
void add_allreduce(CLI::App& app, int& code) {
  const auto options = std::make_shared<AllreduceBenchOptions>();
  CLI::App* command = app.add_subcommand("allreduce", "Measure time and bandwidth of all-reduce");
  command
      ->add_option("--sizes",
                   options->kilobytes,
                   "Message sizes in KiB, separated by commas [4 to 262144, x4]")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--seconds", options->seconds, "Duration per message size [0.5]")
      ->type_name("SECONDS")
      ->check(at_least(0.001));
  command->add_option("--workers", options->workers, "Number of workers to start with lockstep run")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--transport", options->transport, "Transport, as in training programs [auto]")
      ->type_name("NAME");
  add_common(*command, options->common);
  add_footer(*command,
             "--peer also measures torch.distributed on the same devices.",
             "  lockstep-bench allreduce --workers 2 --peer\n"
             "  lockstep run --nproc-per-node 8 -- lockstep-bench allreduce");
  command->callback([options, &code] { code = measure_allreduce(*options); });
}

}  // namespace

// tool::run() returns 0 if the command line was valid and no exception ended the run; only then
// does the code of the measurement count.
int run(int argc, const char* const* argv) {
  CLI::App app("Measure training throughput and compare it with the limits of the machine",
               "lockstep-bench");
  add_footer(app,
             kPeer,
             "  lockstep-bench gpt2 --batch 64 --peer\n"
             "  lockstep-bench mnist --device cuda --peer\n"
             "  lockstep-bench resnet50 --peer\n"
             "  lockstep-bench loader --data-dir data --peer\n"
             "  lockstep-bench allreduce --workers 2 --peer");
  app.require_subcommand(1);
  int code = 0;
  add_gpt2(app, code);
  add_mnist(app, code);
  add_resnet(app, code);
  add_loader(app, code);
  add_allreduce(app, code);
  const int failure = tool::run(app, argc, argv);
  return failure == 0 ? code : failure;
}

}  // namespace lockstep::bench

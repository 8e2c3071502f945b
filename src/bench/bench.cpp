// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.h"

#include <fmt/format.h>
#include <memory>

#include "bench/commands.h"
#include "tool/tool.h"

namespace lockstep::bench {
namespace {

constexpr const char* kFooter =
    "--peer runs the same in Python, with PyTorch, after lockstep's own: the same card, the same\n"
    "weights and tokens. docs/bench.md says how every figure is made.\n"
    "\n"
    "Examples:\n"
    "  lockstep-bench gpt2 --batch 64 --peer\n"
    "  lockstep-bench mnist --device cuda --peer\n"
    "  lockstep-bench mnist --accuracy 99 --peer\n"
    "  lockstep-bench resnet50 --peer\n"
    "  lockstep-bench loader --data-dir data --peer\n"
    "  lockstep-bench allreduce --workers 2 --peer\n"
    "  lockstep run --nproc-per-node 8 -- lockstep-bench allreduce\n"
    "\n"
    "Exit codes:\n"
    "  0 done   64 usage   69 the Python peer could not be had   70 a bug of lockstep\n"
    "  74 a file cannot be read or written";

// CLI11's own says it with the largest number that there is.
CLI::Validator at_least(double least) {
  return CLI::Validator(
      [least](const std::string& text) {
        double number = 0;
        const bool is_enough = CLI::detail::lexical_cast(text, number) && number >= least;
        return is_enough ? std::string() : fmt::format("{} is not at least {:g}", text, least);
      },
      "");
}

void add_common(CLI::App& app, CommonOptions& options) {
  app.add_option("--device", options.device, "auto, cpu or cuda [auto]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--json", options.json, "Every figure, for machines")->type_name("FILE");
  app.add_option("--flag", options.flags, "A flag of training programs, as --flag=--cuda-graph")
      ->type_name("FLAG")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--peer", options.peer, "Also the same in Python");
  app.add_option("--python", options.python, "What runs it [python3]")->type_name("PROGRAM");
}

void add_gpt2(CLI::App& app, int& code) {
  const auto options = std::make_shared<Gpt2BenchOptions>();
  CLI::App* command = app.add_subcommand("gpt2", "Tokens per second of training GPT-2");
  command->add_option("--size", options->size, "The published sizes, and tiny [124M]")
      ->type_name("NAME");
  command->add_option("--batch", options->batch, "Texts of a step [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option(
          "--context", options->context, "Tokens of a text [all that the model can look at: 1024]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--precision", options->precision, "bf16 or fp32 [bf16]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  command->add_option("--steps", options->steps, "Of each of three timed blocks [20]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Steps before them [5]")
      ->type_name("COUNT")
      ->check(at_least(0));
  command->add_option("--optimizer", options->optimizer, "adamw, adam or sgd [adamw]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"adamw", "adam", "sgd"}));
  command->add_option("-s,--strategy", options->strategy, "As of a training program [single]")
      ->type_name("NAME");
  add_common(*command, options->common);
  command->add_option("--peer-mode", options->peer_mode, "compile or eager [compile]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"compile", "eager"}));
  command->add_option("--curve", options->curve, "The loss of every step: step,loss[,peer]")
      ->type_name("FILE");
  command->add_option("--weights", options->weights, "Begins with these")->type_name("FILE");
  command->add_option("--save-weights", options->save_weights, "Writes what it begins with (.pt)")
      ->type_name("FILE");
  command->add_option("--tokens", options->tokens, "Trains on what --save-tokens wrote")
      ->type_name("FILE");
  command
      ->add_option("--save-tokens", options->save_tokens, "Writes the tokens, int64 without header")
      ->type_name("FILE");
  command->callback([options, &code] { code = measure_gpt2(*options); });
}

void add_mnist(CLI::App& app, int& code) {
  const auto options = std::make_shared<MnistBenchOptions>();
  CLI::App* command =
      app.add_subcommand("mnist", "Images per second of a bare loop and of the Trainer");
  command->add_option("--net", options->net, "cnn, classic or mlp [cnn]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cnn", "classic", "mlp"}));
  command->add_option("--batch", options->batch, "Images of a step [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--steps", options->steps, "Of each timed block [500]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Steps before each [50]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--accuracy",
                   options->accuracy,
                   "Instead the seconds from the command to this test accuracy, in percent")
      ->type_name("PERCENT")
      ->check(at_least(1));
  command->add_flag("--generated-digits", options->generated, "With drawn digits, not MNIST's");
  command->add_option("--data-dir", options->data_dir, "Where MNIST is [data]")->type_name("DIR");
  command->add_option("--until", options->until)->group("");  // the program that is timed
  add_common(*command, options->common);
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

void add_resnet(CLI::App& app, int& code) {
  const auto options = std::make_shared<ResnetBenchOptions>();
  CLI::App* command = app.add_subcommand("resnet50", "Images per second of training a ResNet");
  command->add_option("--net", options->net, "resnet18, 34, 50, 101 or 152 [resnet50]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}));
  command->add_option("--batch", options->batch, "Images of a step [256]")
      ->type_name("COUNT")
      ->check(at_least(2));
  command->add_option("--size", options->size, "Pixels of a side [224]")
      ->type_name("COUNT")
      ->check(at_least(32));
  command->add_option("--precision", options->precision, "bf16 or fp32 [bf16]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  command->add_option("--steps", options->steps, "Of each of three timed blocks [20]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--warmup", options->warmup, "Steps before them [8]")
      ->type_name("COUNT")
      ->check(at_least(1));
  add_common(*command, options->common);
  command->add_option("--peer-mode", options->peer_mode, "compile or eager [compile]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"compile", "eager"}));
  command->add_option("--curve", options->curve, "The loss of every step: step,loss[,eager]")
      ->type_name("FILE");
  command->callback([options, &code] { code = measure_resnet(*options); });
}

void add_loader(CLI::App& app, int& code) {
  const auto options = std::make_shared<LoaderBenchOptions>();
  CLI::App* command =
      app.add_subcommand("loader", "Images per second of decoding JPEG files into batches");
  CLI::Option* data_dir = command
                              ->add_option("--data-dir",
                                           options->data_dir,
                                           "Where ImageNet is, as files or packs [drawn images]")
                              ->type_name("DIR");
  command->add_flag("--tiny", options->is_tiny, "TinyImageNet there instead")->needs(data_dir);
  command->add_flag("--generated", options->is_generated, "Drawn images, which is the default")
      ->excludes(data_dir);
  command->add_option("--images", options->images, "Of the set, evenly spread [1000]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--size", options->size, "Pixels of a side [224]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--batch", options->batch, "Images of a batch [64]")
      ->type_name("COUNT")
      ->check(at_least(1));
  command
      ->add_option("--threads", options->threads, "With commas [1 and as many as there are cores]")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(at_least(0));
  command->add_option("--seconds", options->seconds, "Of each of three rounds [2]")
      ->type_name("SECONDS")
      ->check(at_least(0.001));
  add_common(*command, options->common);
  command->callback([options, &code] { code = measure_loader(*options); });
}

void add_allreduce(CLI::App& app, int& code) {
  const auto options = std::make_shared<AllreduceBenchOptions>();
  CLI::App* command = app.add_subcommand("allreduce", "Time and bandwidth of sums over the gang");
  command
      ->add_option(
          "--sizes", options->kilobytes, "KiB of the messages, with commas [4 to 262144, x4]")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--seconds", options->seconds, "Spent on each size [0.5]")
      ->type_name("SECONDS")
      ->check(at_least(0.001));
  command->add_option("--workers", options->workers, "Starts so many with lockstep run")
      ->type_name("COUNT")
      ->check(at_least(1));
  command->add_option("--transport", options->transport, "As of a training program [auto]")
      ->type_name("NAME");
  add_common(*command, options->common);
  command->callback([options, &code] { code = measure_allreduce(*options); });
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Measures how fast this machine trains, beside what it could do", "lockstep-bench");
  app.footer(kFooter);
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

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/session.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/strategy/properties.h"
#include "training/train/options/deepspeed_flags.h"
#include "training/train/options/precision.h"
#include "training/train/session/own_loop.h"
#include "training/train/session/session_parts.h"

namespace lockstep {

std::string Session::Parts::strategy() const {
  return flags.strategy.value_or(strategy::default_name(communicator->size()));
}

std::optional<int> Session::Parts::find_stop_signal() const {
  return stop == nullptr ? std::nullopt : stop->find_signal();
}

std::optional<double> Session::Parts::seconds_since_command() const {
  return command_time ? std::optional(wall_time() - *command_time) : std::nullopt;
}

void Session::Parts::report(const std::string& kind,
                            std::vector<std::pair<std::string, contract::Event::Value>> fields) {
  if (events) {
    events->write({.kind = kind,
                   .time = wall_time(),
                   .rank = communicator->rank(),
                   .fields = std::move(fields)});
  }
}

void train::throw_not_verified() {
  throw Error(ExitCode::Usage, "cannot verify strategies: this program does not use Trainer::fit")
      .fact("requested", "--verify-strategies", "command line")
      .hint("in the program: if (session.wants_verification()) lockstep::verify_strategies(...)");
}

Session::Session(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Session::~Session() = default;

Communicator& Session::communicator() const {
  return *parts_->communicator;
}

torch::Device Session::device() const {
  return parts_->device;
}

const std::filesystem::path& Session::data_dir() const {
  return parts_->data_dir;
}

const std::filesystem::path& Session::run_dir() const {
  return parts_->run_dir.root();
}

// A name that the program has not declared is a bug in the program, not a user error.
const std::string& Session::option(std::string_view name) const {
  const auto found = parts_->flags.program.find(name);
  LOCKSTEP_CHECK(found != parts_->flags.program.end());
  return found->second;
}

namespace {

// Parses a finite number without trailing characters.
std::optional<double> find_finite(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = fault == std::errc() && end == text.data() + text.size();
  return is_all && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Returns " from 0 to 1", without the limits that are those of the type.
template <typename Number>
std::string describe_range(Number minimum, Number maximum) {
  const std::string from =
      minimum == std::numeric_limits<Number>::lowest() ? "" : fmt::format(" from {}", minimum);
  const std::string to =
      maximum == std::numeric_limits<Number>::max() ? "" : fmt::format(" to {}", maximum);
  return from + to;
}

// `wanted` is, for example, "number from 0 to 1".
[[noreturn]] void refuse(std::string_view name, std::string_view text, const std::string& wanted) {
  throw Error(ExitCode::Usage, fmt::format("{} '{}' is not a {}", name, text, wanted))
      .fact("requested", fmt::format("{} {}", name, text), "command line")
      .hint(fmt::format("{} with a {}", name, wanted));
}

}  // namespace

// Checked at the time of use: options of the program are texts until then.
double Session::number(std::string_view name, double minimum, double maximum) const {
  const std::optional<double> value = find_finite(option(name));
  if (!value || *value < minimum || *value > maximum) {
    refuse(name, option(name), "number" + describe_range(minimum, maximum));
  }
  return *value;
}

int64_t Session::whole_number(std::string_view name, int64_t minimum, int64_t maximum) const {
  const std::optional<int64_t> value = find_integer(option(name));
  if (!value || *value < minimum || *value > maximum) {
    refuse(name, option(name), "whole number" + describe_range(minimum, maximum));
  }
  return *value;
}

namespace {

// Returns the options of the program, overridden by ds_config.json and the command line. Order:
// program, file, command line, then scaling by the number of workers, which applies to the final
// rate.
OptimizerOptions resolve(const Session& session, OptimizerOptions defaults) {
  const train::Flags& flags = SessionAccess::parts(session).flags;
  const deepspeed::Decisions decisions = train::lay_file_over(defaults, flags);
  if (session.rank() == 0) {
    for (const std::string& decision : decisions) {
      log::info("{}", decision);
    }
  }
  // An optimizer in the file has already been resolved: DeepSpeed's "Adam" can mean AdamW.
  if (!flags.file || !flags.file->optimizer) {
    defaults.name = flags.optimizer.value_or(defaults.name);
  }
  if (flags.momentum && defaults.name != "sgd") {
    throw Error(ExitCode::Usage, fmt::format("cannot use --momentum with {}", defaults.name))
        .fact("requested", fmt::format("--momentum {:g}", *flags.momentum), "command line")
        .hint("omit --momentum, or --optimizer sgd");
  }
  defaults.lr = flags.lr.value_or(defaults.lr);
  defaults.momentum = flags.momentum.value_or(defaults.momentum);
  defaults.weight_decay = flags.weight_decay.value_or(defaults.weight_decay);
  const double factor = lr_factor(parse_lr_scaling(flags.scale_lr), session.world_size());
  if (factor != 1 && session.rank() == 0) {
    log::info("learning rate {} x {:.4g} (--scale-lr {}, {} workers) = {:.4g}",
              defaults.lr,
              factor,
              flags.scale_lr,
              session.world_size(),
              defaults.lr * factor);
  }
  defaults.lr *= factor;
  return defaults;
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> Session::make_optimizer(
    std::vector<torch::Tensor> parameters, OptimizerOptions defaults) const {
  return lockstep::make_optimizer(std::move(parameters), resolve(*this, std::move(defaults)));
}

std::unique_ptr<torch::optim::Optimizer> Session::make_optimizer(torch::nn::Module& model,
                                                                 OptimizerOptions defaults) const {
  return lockstep::make_optimizer(model, resolve(*this, std::move(defaults)));
}

bool Session::wants_verification() const {
  return parts_->flags.verify_strategies;
}

// Called by programs with a custom loop only; Trainer creates its strategy itself.
std::unique_ptr<Strategy> Session::make_strategy(const StrategyOptions& options) const {
  if (wants_verification()) {
    train::throw_not_verified();
  }
  train::require_no_trainer_flags(parts_->flags);
  return lockstep::make_strategy(
      parts_->strategy(), communicator(), train::resolve(options, parts_->flags));
}

LossFunction Session::in_precision(const LossFunction& loss) const {
  parts_->asked_precision = true;
  return train::in_precision(loss,
                             parts_->flags.precision.value_or("fp32"),
                             parts_->device,
                             train::precision_source(parts_->flags));
}

// The call itself is the evidence that the program heeds the option: see warn_of_unused_flags().
bool Session::recompute() const {
  parts_->queried_recompute = true;
  return parts_->flags.recompute;
}

const std::string& Session::jpeg() const {
  parts_->asked_jpeg = true;
  return parts_->flags.jpeg;
}

void Session::say(const std::string& line) const {
  if (rank() == 0) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
}

bool Session::stop_requested() const {
  return parts_->find_stop_signal().has_value();
}

}  // namespace lockstep

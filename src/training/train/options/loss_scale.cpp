// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/loss_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <sstream>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

// A single bad batch must not end a training; this many overflows in a row are not a coincidence.
constexpr int64_t kMaxAtFloor = 4;
// A fixed scale cannot adapt, so that more overflows in a row are tolerated.
constexpr int64_t kMaxFixed = 20;

}  // namespace

LossScaler::LossScaler(const std::string& text,
                       const std::string& precision,
                       const LossScaling& scaling)
    : scaling_(scaling), patience_(scaling.hysteresis) {
  if (text == "none" || (text.empty() && precision != "fp16")) {
    return;
  }
  is_dynamic_ = text.empty() || text == "dynamic";
  scale_ = scaling.first;
  if (is_dynamic_) {
    return;
  }
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, scale_);
  if (fault != std::errc() || stop != end || !std::isfinite(scale_) || scale_ <= 0) {
    throw Error(ExitCode::Usage, fmt::format("--loss-scale '{}' is not a valid value", text))
        .fact("expected", "none, dynamic, or a number above 0")
        .hint("--loss-scale dynamic");
  }
}

// One step with a dynamic scale:
//
//   finite      good_steps + 1; at scaling.good_steps: scale x 2
//   overflow    step skipped; hysteresis left: use one; else scale / 2, not below `minimum`
//               at `minimum`: count; kMaxAtFloor in a row end the training
//
// All workers see the same `applied`, because the gradients are reduced before they are checked.
void LossScaler::after_step(int64_t step, bool applied) {
  if (!is_on()) {
    return;
  }
  if (applied) {
    overflows_ = 0;
    const bool doubles = is_dynamic_ && ++good_steps_ == scaling_.good_steps;
    if (doubles) {
      scale_ *= 2;
      good_steps_ = 0;
    }
    if (doubles || scaling_.refills_hysteresis) {
      patience_ = scaling_.hysteresis;
    }
    return;
  }
  ++skipped_;
  good_steps_ = 0;
  if (is_dynamic_ && patience_ > 1) {
    --patience_;
    return;
  }
  if (is_dynamic_ && scale_ > scaling_.minimum) {
    scale_ = std::max(scaling_.minimum, scale_ / 2);
    return;
  }
  if (++overflows_ < (is_dynamic_ ? kMaxAtFloor : kMaxFixed)) {
    return;
  }
  if (is_dynamic_) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot continue: gradients overflow at the minimum loss scale {} "
                            "(step {})",
                            scale_,
                            step))
        .fact("skipped steps",
              fmt::format("{}, the last {} in a row at {}", skipped_, overflows_, scale_))
        .hint("--precision bf16, a smaller --lr, or --clip 1");
  }
  throw Error(
      ExitCode::Usage,
      fmt::format(
          "cannot continue: gradients overflow at the fixed loss scale {} (step {})", scale_, step))
      .fact("requested", fmt::format("--loss-scale {}", scale_))
      .fact("skipped steps", fmt::format("{}, the last {} in a row", skipped_, overflows_))
      .hint("--loss-scale dynamic");
}

// Fields: scale, good steps, overflows, skipped steps and, with hysteresis, the remaining patience.
std::string LossScaler::state() const {
  if (!is_on()) {
    return "";
  }
  const std::string words = fmt::format("{} {} {} {}", scale_, good_steps_, overflows_, skipped_);
  return scaling_.hysteresis > 1 ? fmt::format("{} {}", words, patience_) : words;
}

// A dynamic scale continues; a fixed scale is that of the current command line.
void LossScaler::restore(const std::string& state) {
  if (!is_on() || state.empty()) {
    return;
  }
  std::istringstream words(state);
  double scale = scale_;
  words >> scale >> good_steps_ >> overflows_ >> skipped_;
  if (!words) {
    throw Error(ExitCode::Io, "cannot resume: the loss scale of the checkpoint is invalid")
        .fact("found", state, "checkpoint");
  }
  // The fifth field exists only with hysteresis.
  if (int64_t patience = 0; words >> patience) {
    patience_ = std::clamp<int64_t>(patience, 1, scaling_.hysteresis);
  }
  scale_ = is_dynamic_ ? scale : scale_;
}

}  // namespace lockstep::train

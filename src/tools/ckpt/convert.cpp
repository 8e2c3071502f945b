// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/os/terminal.h"
#include "lockstep/error.h"
#include "tools/ckpt/commands.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/weights_file.h"

namespace lockstep::ckpt {
namespace {

using checkpoint::WeightsItem;

// The output of zero_to_fp32.py of DeepSpeed: a state dict with only float32 tensors.
constexpr std::string_view kConsolidated = "pytorch_model.bin";

enum class Format { Safetensors, TorchSave };

Format format_of(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".safetensors") {
    return Format::Safetensors;
  }
  if (extension == ".pt" || extension == ".pth" || extension == ".bin") {
    return Format::TorchSave;
  }
  throw Error(ExitCode::Usage, fmt::format("unknown file format: {}", file.string()))
      .hint("use a name that ends with .safetensors, or with .pt, .pth or .bin for torch.save");
}

std::optional<torch::ScalarType> parse_dtype(const std::string& name) {
  if (name.empty()) {
    return std::nullopt;
  }
  if (name == "fp32") {
    return torch::kFloat32;
  }
  return name == "fp16" ? torch::kFloat16 : torch::kBFloat16;
}

// Tensor names in a checkpoint have the prefix "model.", "optimizer." or "ema."; it is removed in
// the output. Files of torch.save have no prefixes, so all their tensors are taken.
std::vector<WeightsItem> choose(const Opened& opened, const std::string& only) {
  const std::string wanted = only.empty() && opened.checkpoint ? "model" : only;
  std::vector<WeightsItem> items =
      checkpoint::items_below(*opened.tensors, wanted.empty() ? "" : wanted + ".");
  if (items.empty()) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot convert {}: it has no tensors{}",
                            opened.path.string(),
                            wanted.empty() ? "" : fmt::format(" \"{}.*\"", wanted)))
        .hint("lockstep-ckpt inspect " + quote_for_shell(opened.path.string()));
  }
  return items;
}

// Rewrites a progress line on stderr once per second, if stderr is a terminal.
checkpoint::WriteProgress show_progress() {
  using Clock = std::chrono::steady_clock;
  if (!os::find_terminal_columns(2)) {
    return {};
  }
  return [next = Clock::now() + std::chrono::seconds(1)](uint64_t done, uint64_t all) mutable {
    if (Clock::now() >= next) {
      next = Clock::now() + std::chrono::seconds(1);
      fmt::print(stderr, "\r{} of {} ", format_bytes(done), format_bytes(all));
    }
  };
}

}  // namespace

// Tensors are read, converted and written one by one: a model that is larger than the memory can be
// converted. All checksums of the source are verified first.
void convert(const ConvertOptions& options) {
  const Format format = format_of(options.to);
  const Opened opened = open(options.from, Look::AtAllBytes, options.entry);
  std::vector<WeightsItem> items = choose(opened, options.only);
  const bool is_consolidated = options.to.filename() == kConsolidated && options.dtype.empty();
  const auto type = is_consolidated ? torch::kFloat32 : parse_dtype(options.dtype);
  uint64_t count = 0;
  for (WeightsItem& item : items) {
    // Integer counters keep their type, except that zero_to_fp32.py also converts them to float.
    if (type && (is_consolidated || c10::isFloatingType(item.type))) {
      item.type = *type;
    }
    ++count;
  }
  // Both write to a temporary name and rename it at the end: an existing file is replaced only by a
  // complete one.
  if (format == Format::Safetensors) {
    write_safetensors(options.to, *opened.tensors, items, show_progress());
  } else {
    write_pt(options.to, *opened.tensors, items, show_progress());
  }
  std::error_code unknown;
  fmt::print("{}: {} tensors, {}\n",
             options.to.string(),
             count,
             format_bytes(std::filesystem::file_size(options.to, unknown)));
}

}  // namespace lockstep::ckpt

// SPDX-License-Identifier: Apache-2.0
#include "cluster/gpus.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "base/text.h"

namespace lockstep::cluster {
namespace {

bool is_gpu(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && find_integer(name.substr(kPrefix.size())).has_value();
}

}  // namespace

int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices) {
  int plugged = 0;
  std::error_code ignored;  // no such folder means no GPU
  for (const auto& entry : std::filesystem::directory_iterator(devices, ignored)) {
    plugged += is_gpu(entry.path().filename().string()) ? 1 : 0;
  }
  const auto visible = os::find_variable(environment, "CUDA_VISIBLE_DEVICES");
  if (!visible) {
    return plugged;
  }
  // CUDA stops reading at the first entry that names no device; -1 is the usual way to say none.
  const auto names = split(*visible, ',');
  const auto end = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.empty() || name.starts_with('-');
  });
  return std::min(plugged, static_cast<int>(end - names.begin()));
}

}  // namespace lockstep::cluster

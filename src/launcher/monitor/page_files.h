// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace lockstep::monitor {

// A file of the dashboard page. The build embeds the files of web/dist into the binary.
struct PageFile {
  std::string_view name;  // "app.js"
  std::string_view bytes;
};

std::span<const PageFile> page_files();

}  // namespace lockstep::monitor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

#include "common/os/environment.h"

namespace lockstep::testing {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Compares `text` with a complete file of the source tree. With LOCKSTEP_UPDATE_GOLDEN=1, rewrites
// the file instead. A missing file is a failure.
inline void expect_same_as_file(const std::string& text, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / name;
  if (os::find_variable(os::environment(), "LOCKSTEP_UPDATE_GOLDEN") == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  ASSERT_TRUE(std::filesystem::exists(path))
      << name << " is missing; LOCKSTEP_UPDATE_GOLDEN=1 creates it";
  EXPECT_EQ(text, read_text(path)) << "differs from " << name;
}

inline void expect_golden(const std::string& text, const std::string& name) {
  expect_same_as_file(text, "tests/golden/" + name);
}

}  // namespace lockstep::testing

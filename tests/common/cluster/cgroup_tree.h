// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "common/os/files.h"

namespace lockstep::testing {

// A fake cgroup tree, filled by each test.
class CgroupTree : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = mount() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::filesystem::path& mount() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

}  // namespace lockstep::testing

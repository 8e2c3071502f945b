// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "common/os/command.h"

namespace lockstep::testing {

// Creates wheels/tiny-1.0-py3-none-any.whl in `directory`, a package that pip installs without a
// network.
inline void make_wheel(const std::filesystem::path& directory) {
  constexpr const char* kProgram = R"(
import os, sys, zipfile
os.makedirs(sys.argv[1], exist_ok=True)
with zipfile.ZipFile(sys.argv[1] + "/tiny-1.0-py3-none-any.whl", "w") as wheel:
    info = "tiny-1.0.dist-info/"
    wheel.writestr("tiny.py", "answer = 42\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: a test\n"
                                   "Root-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
)";
  os::run_command({"/usr/bin/python3", "-c", kProgram, (directory / "wheels").string()});
}

}  // namespace lockstep::testing

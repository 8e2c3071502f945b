// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "agent/messages.h"
#include "contract/run_directory.h"
#include "os/rotating_file.h"

namespace lockstep::agent {

// Writes what agents record into the run directory, a file per node and per rank. A file that
// cannot be written costs one warning in all, and never the run. One thread.
class Records {
 public:
  Records(contract::RunDirectory directory,
          std::function<void(const std::string&)> warn,
          os::RotatingFile::Limits limits = {});

  void write(const Recorded& recorded);

 private:
  std::filesystem::path path_of(const Recorded& recorded) const;

  contract::RunDirectory directory_;
  std::function<void(const std::string&)> warn_;
  os::RotatingFile::Limits limits_;
  std::map<std::pair<Recorded::Kind, int>, os::RotatingFile> files_;
  bool has_warned_ = false;
};

}  // namespace lockstep::agent

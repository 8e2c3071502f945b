// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/contract/run_directory.h"
#include "common/os/rotating_file.h"
#include "launcher/supervisor/node/write_faults.h"
#include "launcher/supervisor/protocol/messages.h"

namespace lockstep::supervisor {

// Writes the samples and metrics of agents to the run directory, one file per node and per rank. A
// write error does not end the run. Not thread-safe.
class RecordWriter {
 public:
  RecordWriter(contract::RunDirectory directory,
               WriteFaults& faults,
               os::RotatingFile::Limits limits = {});

  void write(const Recorded& recorded);

 private:
  std::filesystem::path path_of(const Recorded& recorded) const;

  contract::RunDirectory directory_;
  WriteFaults& faults_;
  os::RotatingFile::Limits limits_;
  std::map<std::pair<Recorded::Kind, int>, os::RotatingFile> files_;
};

}  // namespace lockstep::supervisor

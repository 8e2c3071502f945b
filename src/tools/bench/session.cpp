// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/session.h"

#include <optional>

#include "common/cluster/placement.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "lockstep/run.h"

namespace lockstep::bench {

// Under a launcher, all workers must use its run directory. Alone, the run directory is temporary,
// so that a benchmark leaves nothing behind; `scratch` outlives the run.
// run() expects the argument vector of main(), with a final null pointer.
int in_session(std::vector<std::string> flags, const std::function<void(Session&)>& body) {
  std::optional<os::TemporaryDirectory> scratch;
  flags.insert(flags.begin(), "lockstep-bench");
  if (cluster::read_placement(os::environment()).launched_by == cluster::LaunchedBy::Alone) {
    scratch.emplace("lockstep-bench");
    flags.insert(flags.end(), {"--run-dir", scratch->path().string()});
  }
  std::vector<char*> words;
  for (std::string& flag : flags) {
    words.push_back(flag.data());
  }
  words.push_back(nullptr);
  return lockstep::run(
      static_cast<int>(flags.size()), words.data(), {.about = "Measure training throughput"}, body);
}

}  // namespace lockstep::bench

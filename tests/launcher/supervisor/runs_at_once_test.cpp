// SPDX-License-Identifier: Apache-2.0
// Many launchers on one machine at the same time.
#include <gmock/gmock.h>
#include <set>
#include <string>
#include <vector>

#include "support/launcher.h"

namespace lockstep::supervisor {
namespace {

using testing::Launcher;

constexpr size_t kRuns = 20;

// Rank 0 listens on every address, like the store of torch, and keeps the port until all runs have
// one. Two runs with the same port would fail.
constexpr const char* kListen = R"(import os, socket, sys, time
folder, runs = sys.argv[1], int(sys.argv[2])
if os.environ["RANK"] != "0":
    sys.exit(0)
port = os.environ["MASTER_PORT"]
listener = socket.create_server(("", int(port)), reuse_port=False)
open(os.path.join(folder, port), "w").close()
until = time.monotonic() + 60
while len(os.listdir(folder)) < runs:
    if time.monotonic() > until:
        sys.exit(f"{len(os.listdir(folder))} of {runs} runs have come up")
    time.sleep(0.02)
)";

TEST(RunsAtOnce, HaveMasterPortsOfTheirOwn) {
  const os::TemporaryDirectory ports("ports");
  std::vector<Launcher> launchers(kRuns);
  for (Launcher& launcher : launchers) {
    launcher.start({"run",
                    "--nproc-per-node",
                    "2",
                    "--run-dir",
                    "run",
                    "python3",
                    "-c",
                    kListen,
                    ports.path().string(),
                    std::to_string(kRuns)});
  }
  for (Launcher& launcher : launchers) {
    const auto result = launcher.wait();
    EXPECT_EQ(result.status.shell_code(), 0) << result.errors;
  }
  std::set<std::string> taken;
  for (const auto& entry : std::filesystem::directory_iterator(ports.path())) {
    taken.insert(entry.path().filename().string());
  }
  EXPECT_EQ(taken.size(), kRuns);
}

}  // namespace
}  // namespace lockstep::supervisor

// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/workers.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <stdexcept>

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Rank 0 listens, the others try to connect for 20 s. Facts are written after all have connected.
constexpr const char* kMeet = R"(#!/usr/bin/python3
import json, os, socket, sys, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
here = os.path.dirname(os.path.abspath(__file__))


def knock():
    for _ in range(200):
        try:
            return socket.create_connection((host, port), timeout=5)
        except OSError as error:
            last = error
            time.sleep(0.1)
    sys.exit(f"rank {rank} cannot reach {host}:{port}: {last}")


if rank == 0:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.create_server(("", port), family=family, backlog=size)
    door.settimeout(20)
    peers = [door.accept()[0] for _ in range(size - 1)]
    ranks = sorted(int(peer.recv(16)) for peer in peers)
    assert ranks == list(range(1, size)), ranks
    for peer in peers:
        peer.sendall(b"all")
else:
    peer = knock()
    peer.sendall(str(rank).encode())
    assert peer.recv(16) == b"all"

fact = dict(os.environ, host=socket.gethostname(), cwd=os.getcwd(), argv=sys.argv[1:])
with open(os.path.join(here, f"fact-{rank}.json"), "w") as file:
    json.dump(fact, file)
print(f"rank {rank} met {size} on {fact['host']}")
)";

}  // namespace

void LaunchOnLab::SetUp() {
  OnLab::SetUp();
  if (!IsSkipped()) {
    copy_launcher(lab());
  }
}

std::string write_meet(const Lab& lab) {
  return lab.write("meet.py", kMeet);
}

std::string copy_launcher(const Lab& lab) {
  const fs::path folder = lab.home() / "bin";
  fs::create_directories(folder);
  fs::copy_file(fs::path(LOCKSTEP_BIN_DIR) / "lockstep",
                folder / "lockstep",
                fs::copy_options::skip_existing);
  return (folder / "lockstep").string();
}

nlohmann::json fact_of(const Lab& lab, int rank) {
  return nlohmann::json::parse(
      read_text(lab.path("fact-" + std::to_string(rank) + ".json")), nullptr, false);
}

void expect_workers(const Lab& lab, const std::vector<std::pair<std::string, int>>& nodes) {
  int world = 0;
  for (const auto& [node, workers] : nodes) {
    world += workers;
  }
  int rank = 0;
  for (size_t number = 0; number < nodes.size(); ++number) {
    const auto& [node, workers] = nodes[number];
    for (int local = 0; local < workers; ++local, ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      const nlohmann::json fact = fact_of(lab, rank);
      ASSERT_TRUE(fact.is_object()) << "no rendezvous";
      EXPECT_EQ(fact.value("host", ""), node);
      EXPECT_EQ(fact.value("RANK", ""), std::to_string(rank));
      EXPECT_EQ(fact.value("WORLD_SIZE", ""), std::to_string(world));
      EXPECT_EQ(fact.value("LOCAL_RANK", ""), std::to_string(local));
      EXPECT_EQ(fact.value("LOCAL_WORLD_SIZE", ""), std::to_string(workers));
      EXPECT_EQ(fact.value("GROUP_RANK", ""), std::to_string(number));
      EXPECT_EQ(fact.value("GROUP_WORLD_SIZE", ""), std::to_string(nodes.size()));
      EXPECT_EQ(fact.value("cwd", ""), lab.path("").parent_path().string());
      if (nodes.size() > 1) {
        EXPECT_THAT(fact.value("MASTER_ADDR", ""),
                    AnyOf(StartsWith("10.12.0."), StartsWith("fd00:12:")));
        EXPECT_THAT(fact.value("NCCL_SOCKET_IFNAME", ""), HasSubstr("fab0"));
        EXPECT_THAT(fact.value("GLOO_SOCKET_IFNAME", ""), HasSubstr("fab0"));
      }
    }
  }
  EXPECT_FALSE(fs::exists(lab.path("fact-" + std::to_string(rank) + ".json")));
}

std::map<int, double> losses_of(const std::filesystem::path& run) {
  std::map<int, double> losses;
  for (const std::string& line : split(read_text(run / "events/rank-0.jsonl"), '\n')) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "evaluation") {
      losses[event.at("step").get<int>()] = event.at("loss").get<double>();
    }
  }
  return losses;
}

nlohmann::json failure_of(const Lab& lab, const std::string& run) {
  return nlohmann::json::parse(read_text(lab.path(run) / "failure.json"), nullptr, false);
}

}  // namespace lockstep::testing

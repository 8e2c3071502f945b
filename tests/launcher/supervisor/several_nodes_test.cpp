// SPDX-License-Identifier: Apache-2.0
// Several nodes on this machine: one real launcher per node, started manually.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <memory>
#include <optional>
#include <utility>

#include "common/contract/node_sample.h"
#include "common/os/host.h"
#include "common/os/socket.h"
#include "common/os/tcp_listener.h"
#include "launcher/supervisor/protocol/control.h"
#include "launcher/supervisor/protocol/messages.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SeveralNodes : public ::testing::Test {
 protected:
  // `lockstep run` as one of the nodes. Its workers execute SCRIPT.
  struct NodeOptions {
    std::vector<std::string> options;
    int workers = 2;
  };

  Launcher& start(const NodeOptions& node_options, const std::string& script) {
    Launcher& node = *nodes.emplace_back(std::make_unique<Launcher>());
    node.environment.insert_or_assign("LOCKSTEP_MEETING_DIR", directory.path() / "rendezvous");
    node.environment.merge(os::Environment(variables));
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), node_options.options.begin(), node_options.options.end());
    arguments.insert(arguments.end(),
                     {"--nproc-per-node",
                      std::to_string(node_options.workers),
                      "--grace",
                      "0.5",
                      "--run-dir",
                      (directory.path() / "run").string(),
                      "sh",
                      "-c",
                      fmt::format("cd {}\n{}", directory.path().string(), script)});
    node.start(arguments);
    return node;
  }

  // Nodes 0 and 1 of two.
  void start_two(const std::string& script, const std::vector<std::string>& further = {}) {
    for (int node = 0; node < 2; ++node) {
      std::vector<std::string> options = {"--nnodes",
                                          "2",
                                          "--node-rank",
                                          std::to_string(node),
                                          "--master-addr",
                                          "127.0.0.1",
                                          "--master-port",
                                          std::to_string(port)};
      options.insert(options.end(), further.begin(), further.end());
      start({.options = options, .workers = 2}, script);
    }
  }

  // Writes the process id of its agent, and runs until it is stopped.
  static constexpr const char* kStay =
      "echo $PPID > writing-$RANK; mv writing-$RANK agent-$RANK\n"
      "while :; do sleep 0.05; done";

  // Waits for the workers of kStay, and returns the agent of the rank.
  int agent_of(int rank) const {
    const std::string name = fmt::format("agent-{}", rank);
    comes_true([&] { return fs::exists(directory.path() / name); });
    const std::string text = read_text(directory.path() / name);
    return text.empty() ? 0 : std::stoi(text);
  }

  void wait_for_two() const {
    for (const int rank : {0, 1, 2, 3}) {
      ASSERT_NE(agent_of(rank), 0);
    }
  }

  // The command lines of launchers, agents and workers contain the directory of the test.
  void expect_no_process_left() const {
    int left = -1;
    comes_true([&] {
      left = 0;
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
        const std::string command = read_text(entry.path() / "cmdline");
        left += command.find(directory.path().string()) != std::string::npos ? 1 : 0;
      }
      return left == 0;
    });
    EXPECT_EQ(left, 0);
  }

  os::TemporaryDirectory directory{"several-nodes"};
  int port = os::free_port();
  os::Environment variables;
  std::vector<std::unique_ptr<Launcher>> nodes;
};

TEST_F(SeveralNodes, AreOneWorldAndSpeakThroughTheFirst) {
  start_two(
      "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $GROUP_RANK, "
      "$MASTER_ADDR $LOCKSTEP_INTERFACE; echo error $RANK >&2");

  const Result first = nodes[0]->wait();
  const Result second = nodes[1]->wait();

  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_EQ(second.status.code, 0) << second.errors;
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(first.output,
                HasSubstr(fmt::format(
                    "[{}]: {} of 4, {} of 2 on {}, 127.0.0.1 lo", rank, rank, rank % 2, rank / 2)));
    EXPECT_THAT(first.errors, HasSubstr(fmt::format("[{}]: error {}", rank, rank)));
  }
  EXPECT_EQ(second.output, "");
  EXPECT_THAT(first.errors,
              HasSubstr(fmt::format("4 workers on 2 nodes ({0}, {0})", os::host_name())));
  expect_no_process_left();
}

TEST_F(SeveralNodes, LeaveTheirSamplesAndNumbersWithTheFirst) {
  start_two("echo loss: $RANK; while [ ! -e go ]; do sleep 0.02; done",
            {"--sample-every", "0.2", "--metric", "loss=loss: ([0-9]+)"});
  const contract::RunDirectory run(directory.path() / "run");
  const auto samples = [&](int node) {
    return split(read_text(run.node_samples(node)), '\n');
  };
  EXPECT_TRUE(comes_true([&] { return samples(0).size() >= 3 && samples(1).size() >= 3; }));
  std::ofstream(directory.path() / "go") << "now\n";

  EXPECT_EQ(nodes[0]->wait().status.code, 0);
  EXPECT_EQ(nodes[1]->wait().status.code, 0);
  for (const int node : {0, 1}) {
    const std::vector<std::string> lines = samples(node);
    ASSERT_GE(lines.size(), 3U);
    const contract::NodeSample sample = contract::parse_node_sample(lines[1]);
    EXPECT_EQ(sample.node, node);
    ASSERT_EQ(sample.workers.size(), 2U);
    EXPECT_EQ(sample.workers[0].rank, 2 * node);
  }
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(read_text(run.output_metrics(rank)),
                HasSubstr(fmt::format(R"("rank":{0},"name":"loss","value":{0}.0)", rank)));
  }
}

TEST_F(SeveralNodes, CountTheirOwnWorkers) {
  for (int node = 0; node < 3; ++node) {
    start({.options = {"--nnodes=3",
                       fmt::format("--node-rank={}", node),
                       "--master-addr=127.0.0.1",
                       fmt::format("--master-port={}", port)},
           .workers = node + 1},
          "echo $RANK of $WORLD_SIZE, $CROSS_RANK of $CROSS_SIZE");
  }

  const Result first = nodes[0]->wait();

  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_THAT(first.output, HasSubstr("[1]: 1 of 6, 1 of 3"));
  EXPECT_THAT(first.output, HasSubstr("[4]: 4 of 6, 1 of 2"));
  EXPECT_THAT(first.output, HasSubstr("[5]: 5 of 6, 0 of 1"));
}

TEST_F(SeveralNodes, MeetWithoutNumbers) {
  for (int node = 0; node < 3; ++node) {
    start({.options = {"--nnodes=3", fmt::format("--rdzv-endpoint=localhost:{}", port)},
           .workers = 1},
          "echo $RANK of $WORLD_SIZE");
  }

  std::string output;
  for (const auto& node : nodes) {
    const Result result = node->wait();
    EXPECT_EQ(result.status.code, 0) << result.errors;
    output += result.output;
  }

  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(output, HasSubstr(fmt::format("[{}]: {} of 3", rank, rank)));
  }
}

TEST_F(SeveralNodes, MeetWithASecretAndNoFile) {
  variables = {{"LOCKSTEP_SECRET", "0123456789abcdef-of-this-run"}};
  start_two("env > env-$RANK");

  EXPECT_EQ(nodes[0]->wait().status.code, 0);
  EXPECT_EQ(nodes[1]->wait().status.code, 0);

  EXPECT_FALSE(fs::exists(directory.path() / "rendezvous"));
  for (const int rank : {0, 1, 2, 3}) {
    const std::string text = read_text(directory.path() / fmt::format("env-{}", rank));
    EXPECT_THAT(text, HasSubstr(fmt::format("\nRANK={}\n", rank)));
    EXPECT_THAT(text, Not(HasSubstr("0123456789abcdef")));
  }
}

TEST_F(SeveralNodes, RefuseAShortSecret) {
  variables = {{"LOCKSTEP_SECRET", "short"}};
  start_two("true");

  const Result result = nodes[0]->wait();

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("LOCKSTEP_SECRET is too short"));
  EXPECT_EQ(nodes[1]->wait().status.code, 64);
}

TEST_F(SeveralNodes, KeepTheirKeysToThemselves) {
  start_two("env > env-$RANK; while [ ! -e go ]; do sleep 0.02; done");
  while (!fs::exists(directory.path() / "env-3")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const fs::path file = fs::directory_iterator(directory.path() / "rendezvous")->path();
  const std::string text = read_text(file);
  const std::string name = "\"client_secret\":\"";
  const std::string secret = text.substr(text.find(name) + name.size(), 40);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    EXPECT_THAT(read_text(entry.path() / "cmdline"), Not(HasSubstr(secret)));
  }

  std::ofstream(directory.path() / "go") << "now\n";
  const Result first = nodes[0]->wait();
  EXPECT_EQ(first.status.code, 0);
  EXPECT_EQ(nodes[1]->wait().status.code, 0);

  EXPECT_FALSE(fs::exists(file)) << "it is removed at the end";
  EXPECT_THAT(first.output + first.errors, Not(HasSubstr(secret)));
  for (const auto& entry : fs::recursive_directory_iterator(directory.path())) {
    if (entry.is_regular_file()) {
      const std::string held = read_text(entry.path());
      EXPECT_THAT(held, Not(HasSubstr(secret))) << entry.path();
      EXPECT_THAT(held, Not(HasSubstr("LOCKSTEP_MEETING="))) << entry.path();
    }
  }
}

TEST_F(SeveralNodes, EndWithTheCodeOfAWorkerOnTheSecond) {
  start_two("[ $RANK != 3 ] || { echo no more coffee; exit 7; }; while :; do sleep 0.05; done");

  const Result first = nodes[0]->wait();
  const Result second = nodes[1]->wait();

  EXPECT_EQ(first.status.code, 7);
  EXPECT_EQ(second.status.code, 7);
  EXPECT_THAT(first.errors, HasSubstr("rank 3 exited with code 7; stopping 3 workers"));
  EXPECT_THAT(first.errors, HasSubstr("local rank 1 on " + os::host_name()));
  EXPECT_THAT(first.errors, HasSubstr("no more coffee"));
  EXPECT_THAT(read_text(directory.path() / "run" / "failure.json"), HasSubstr("\"rank\": 3"));
  expect_no_process_left();
}

TEST_F(SeveralNodes, StopWhenTheLeaderReceivesASignal) {
  start_two(kStay);
  wait_for_two();

  nodes[0]->process().signal(SIGTERM);

  EXPECT_EQ(nodes[0]->wait().status.code, 143);
  EXPECT_EQ(nodes[1]->wait().status.code, 143);
  expect_no_process_left();
}

TEST_F(SeveralNodes, StopWhenAnotherNodeReceivesASignal) {
  start_two(kStay);
  wait_for_two();

  nodes[1]->process().signal(SIGINT);

  const Result first = nodes[0]->wait();
  EXPECT_EQ(first.status.code, 130);
  EXPECT_THAT(first.errors, HasSubstr(os::host_name() + " received SIGINT"));
  EXPECT_EQ(nodes[1]->wait().status.code, 130);
  expect_no_process_left();
}

TEST_F(SeveralNodes, LeaveNoProcessWhenAnAgentIsKilled) {
  start_two(kStay);
  wait_for_two();

  os::Child(agent_of(2)).signal(SIGKILL);

  const Result first = nodes[0]->wait();
  EXPECT_EQ(first.status.code, 75);
  EXPECT_THAT(first.errors, HasSubstr("is lost: connection closed"));
  EXPECT_EQ(nodes[1]->wait().status.code, 128 + SIGKILL);
  expect_no_process_left();
}

TEST_F(SeveralNodes, LeaveNoProcessWhenAGuardIsKilled) {
  start_two(kStay);
  wait_for_two();

  nodes[1]->process().signal(SIGKILL);

  EXPECT_EQ(nodes[0]->wait().status.code, 75);
  EXPECT_EQ(nodes[1]->wait().status.signal, SIGKILL);
  expect_no_process_left();
}

TEST_F(SeveralNodes, LeaveNoProcessWhenTheLeaderIsKilled) {
  start_two(kStay);
  wait_for_two();

  os::Child(agent_of(0)).signal(SIGKILL);

  EXPECT_EQ(nodes[0]->wait().status.code, 128 + SIGKILL);
  const Result second = nodes[1]->wait();
  EXPECT_EQ(second.status.code, 75);
  EXPECT_THAT(second.errors,
              HasSubstr("lost the leader of this run; killed the workers of this node"));
  expect_no_process_left();
}

TEST_F(SeveralNodes, LeaveNoProcessWhenTheGuardOfTheLeaderIsKilled) {
  start_two(kStay);
  wait_for_two();

  nodes[0]->process().signal(SIGKILL);

  EXPECT_EQ(nodes[0]->wait().status.signal, SIGKILL);
  EXPECT_THAT(nodes[1]->wait().status.code, AnyOf(75, 128 + SIGQUIT));
  expect_no_process_left();
}

TEST_F(SeveralNodes, StartTogetherAgain) {
  start_two(
      "echo $RANK of $WORLD_SIZE in $TORCHELASTIC_RESTART_COUNT\n"
      "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || [ $RANK != 2 ] || exit 3\n"
      "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || sleep 30",
      {"--max-restarts", "1"});

  const Result first = nodes[0]->wait();

  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("starting attempt 1: restart 1 of 1"));
  EXPECT_THAT(first.output, HasSubstr("[2]: 2 of 4 in 1"));
  EXPECT_EQ(nodes[1]->wait().status.code, 0);
}

TEST_F(SeveralNodes, GoOnWithFewerWhereThatIsAllowed) {
  for (int node = 0; node < 2; ++node) {
    start({.options = {"--nnodes=1:2",
                       fmt::format("--node-rank={}", node),
                       "--master-addr=127.0.0.1",
                       fmt::format("--master-port={}", port)},
           .workers = 2},
          "[ $WORLD_SIZE = 4 ] || { echo $RANK of $WORLD_SIZE; exit 0; }\n" + std::string(kStay));
  }
  wait_for_two();

  os::Child(agent_of(3)).signal(SIGKILL);

  const Result first = nodes[0]->wait();
  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("starting attempt 1: continuing with 1 node"));
  EXPECT_THAT(first.output, HasSubstr("[1]: 1 of 2"));
  EXPECT_EQ(nodes[1]->wait().status.code, 128 + SIGKILL);
  expect_no_process_left();
}

TEST_F(SeveralNodes, TellOneThatMayNotJoinWhy) {
  start_two(kStay);
  wait_for_two();

  Launcher& third = start({.options = {"--nnodes=2",
                                       "--node-rank=1",
                                       "--master-addr=127.0.0.1",
                                       fmt::format("--master-port={}", port)},
                           .workers = 1},
                          "true");
  const Result refused = third.wait();
  nodes[0]->process().signal(SIGTERM);

  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("cannot join the run: node rank 1 is already taken"));
  EXPECT_EQ(nodes[0]->wait().status.code, 143);
  EXPECT_EQ(nodes[1]->wait().status.code, 143);
}

// A client that has the keys and sends messages like an agent of another version.
TEST_F(SeveralNodes, DoWithoutOneThatSendsWhatIsNoMessage) {
  const auto as_node = [this](int node) {
    return NodeOptions{.options = {"--nnodes=3",
                                   fmt::format("--node-rank={}", node),
                                   "--master-addr=127.0.0.1",
                                   fmt::format("--master-port={}", port)},
                       .workers = 1};
  };
  start(as_node(0), "true");
  std::optional<supervisor::RendezvousPoint> point;
  while (!point) {
    point = supervisor::find_rendezvous_in(directory.path() / "rendezvous" /
                                           fmt::format("127.0.0.1-{}.json", port));
  }
  supervisor::ControlClient rogue(point->keys, point->endpoints);
  supervisor::Join join;
  join.name = "rogue";
  join.node = 1;
  std::optional<supervisor::Command> answer;
  while (!answer) {
    const auto news = rogue.poll();
    if (news && news->kind == supervisor::ControlClient::News::Kind::Connected) {
      rogue.send(encode(supervisor::Report(join)));
      rogue.send("no message at all");
    } else if (news) {
      answer = supervisor::decode_command(news->text);
    }
  }
  EXPECT_TRUE(std::holds_alternative<supervisor::Release>(*answer));

  start(as_node(1), "true");
  start(as_node(2), "true");

  const Result first = nodes[0]->wait();
  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("node rogue left: it sent an invalid message"));
  EXPECT_EQ(nodes[1]->wait().status.code, 0);
  EXPECT_EQ(nodes[2]->wait().status.code, 0);
}

// A connection to the port shows that the node looks for the leader. Then the port closes again.
TEST_F(SeveralNodes, StopWhileTheyLookForTheLeader) {
  std::optional<os::TcpListener> leader(std::in_place, "127.0.0.1", port);
  variables = {{"LOCKSTEP_SECRET", "0123456789abcdef-of-this-run"}};
  Launcher& node = start({.options = {"--nnodes=2",
                                      "--node-rank=1",
                                      "--master-addr=127.0.0.1",
                                      fmt::format("--master-port={}", port)},
                          .workers = 1},
                         "true");
  ASSERT_TRUE(node.listens(SIGTERM));
  ASSERT_TRUE(comes_true([&] { return leader->find_connection().has_value(); }));
  leader.reset();

  node.process().signal(SIGTERM);

  EXPECT_EQ(node.wait().status.code, 143);
}

}  // namespace
}  // namespace lockstep::testing

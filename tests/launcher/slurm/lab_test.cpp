// SPDX-License-Identifier: Apache-2.0
// The lab itself: the properties that other tests here and docs/slurm-lab.md depend on.
#include "launcher/slurm/lab.h"

#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <set>
#include <unistd.h>

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Prints the result of a connection to HOST PORT within a second: open, refused or silent.
constexpr const char* kConnect = R"(#!/usr/bin/python3
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1.2).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
)";

class LabItself : public OnLab {};

TEST_F(LabItself, HasIdleNodes) {
  const Result result = lab().on("ctl", {"sinfo", "-h", "-N", "-p", "main", "-o", "%N %T %c %G"});

  EXPECT_THAT(sorted_lines(result.output),
              ElementsAre("n1 idle 4 gpu:fake:2",
                          "n2 idle 4 gpu:fake:2",
                          "n3 idle 4 gpu:fake:2",
                          "n4 idle 4 gpu:fake:2"));
}

TEST_F(LabItself, RunsCommandsAsAUserAtHomeInACleanEnvironment) {
  const Result result = lab().on("n2", {"bash", "-c", "echo $USER $(id -un) $HOSTNAME; pwd; env"});

  EXPECT_THAT(result.output,
              StartsWith("hpc hpc n2\n" + lab().path("").parent_path().string() + "\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("SLURM")));
  EXPECT_EQ(lab().on("n2", {"sh", "-c", "exit 7"}).status.code, 7);
  EXPECT_EQ(lab().on("n2", {"sleep", "60"}, seconds(1)).status.code, 124);
  EXPECT_EQ(lab().on_as_root("n2", {"id", "-u"}).output, "0\n");
}

TEST_F(LabItself, PutsTheBlockedNetworkFirst) {
  EXPECT_EQ(lab().on("n1", {"hostname", "-I"}).output,
            "10.11.0.1 10.12.0.1 fd00:11::1 fd00:12::1 \n");
  EXPECT_THAT(lab().on("n1", {"getent", "hosts", "n2"}).output, StartsWith("10.11.0.2 "));
  EXPECT_THAT(lab().on("n1", {"getent", "hosts", "n2-fab"}).output, StartsWith("10.12.0.2 "));
}

// Every node has an sshd, which listens on all its addresses.
Words connections(const Lab& lab, const std::string& script) {
  Words found;
  for (const char* way : {"n1 n2", "n1 fd00:11::2", "n1 n2-fab", "n1 fd00:12::2", "ctl n2"}) {
    const Words ends = split(way, ' ');
    found.push_back(std::string(way) + " " + lab.on(ends[0], {script, ends[1], "22"}).output);
  }
  return found;
}

TEST_F(LabItself, DropsBetweenNodesOnTheFirstNetworkOnly) {
  EXPECT_THAT(connections(lab(), lab().write("connect.py", kConnect)),
              ElementsAre("n1 n2 silent\n",
                          "n1 fd00:11::2 silent\n",
                          "n1 n2-fab open\n",
                          "n1 fd00:12::2 open\n",
                          "ctl n2 open\n"));
}

TEST_F(LabItself, CanRejectIsolateOrOpenTheFirstNetwork) {
  struct Case {
    const char* block;
    const char* answer;
  };
  for (const Case& one :
       {Case{"reject", "refused"}, Case{"isolate", "silent"}, Case{"open", "open"}}) {
    SCOPED_TRACE(one.block);
    const Lab other({"--nodes", "2", "--block", one.block, "--ssh"});
    EXPECT_THAT(connections(other, other.write("connect.py", kConnect)),
                ElementsAre(std::string("n1 n2 ") + one.answer + "\n",
                            std::string("n1 fd00:11::2 ") + one.answer + "\n",
                            "n1 n2-fab open\n",
                            "n1 fd00:12::2 open\n",
                            "ctl n2 open\n"));
    EXPECT_THAT(sorted_lines(other.on("ctl", {"srun", "-N2", "hostname"}).output),
                ElementsAre("n1", "n2"));
  }
}

TEST_F(LabItself, CanPutSlurmOnTheBlockedNetwork) {
  const Lab other({"--nodes", "2", "--slurm-net", "mgmt", "--gpus", "0"});

  EXPECT_EQ(other.on("ctl", {"srun", "-N1", "printenv", "SLURM_LAUNCH_NODE_IPADDR"}).output,
            "10.11.0.254\n");
  const std::string mpi = has_pmix(other) ? "--mpi=pmix" : "";
  const JobEnd end = other.run_job({"-N2"}, "#!/bin/bash\nsrun " + mpi + " hostname\n");
  EXPECT_EQ(end.state, "COMPLETED");
  EXPECT_THAT(sorted_lines(end.output), ElementsAre("n1", "n2"));
  // The kernel never assigns a port of the open range of srun to another program.
  EXPECT_EQ(other.on("n1", {"cat", "/proc/sys/net/ipv4/ip_local_port_range"}).output,
            "32768\t60000\n");
}

TEST_F(LabItself, SharesGpusOutToJobsAndTasks) {
  EXPECT_EQ(
      lab().shell("ctl", "srun --gpus-per-node=2 bash -c 'echo $CUDA_VISIBLE_DEVICES'").output,
      "0,1\n");
  EXPECT_THAT(
      sorted_lines(
          lab()
              .shell("ctl", "srun -n2 -N1 --gpus-per-task=1 bash -c 'echo $CUDA_VISIBLE_DEVICES'")
              .output),
      ElementsAre("0", "1"));
  EXPECT_NE(lab().on("ctl", {"srun", "--gpus-per-node=3", "true"}).status.code, 0);
}

TEST_F(LabItself, RunsTasksOnAllNodes) {
  EXPECT_THAT(
      sorted_lines(lab().on("ctl", {"srun", "-N4", "--ntasks-per-node=2", "hostname"}).output),
      ElementsAre("n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"));
}

TEST_F(LabItself, ReportsHowABatchJobEnded) {
  const JobEnd end = lab().run_job({"-N2"}, "#!/bin/bash\nsrun -l hostname\nexit 5\n");

  EXPECT_EQ(end.state, "FAILED");
  EXPECT_EQ(end.code, 5);
  EXPECT_THAT(sorted_lines(end.output), ElementsAre("0: n1", "1: n2"));
}

TEST_F(LabItself, RunsMpirunInAJobWithAGivenNetwork) {
  const JobEnd end = lab().run_job({"-N2", "--ntasks-per-node=2"},
                                   "#!/bin/bash\n"
                                   "export OMPI_MCA_oob_tcp_if_include=fab0\n"
                                   "mpirun bash -c 'echo $OMPI_COMM_WORLD_RANK $(hostname)'\n");

  EXPECT_EQ(end.state, "COMPLETED");
  EXPECT_THAT(
      end.output,
      AllOf(HasSubstr("0 n1\n"), HasSubstr("1 n1\n"), HasSubstr("2 n2\n"), HasSubstr("3 n2\n")));
}

TEST_F(LabItself, ReachesNodesOverSsh) {
  EXPECT_EQ(lab().on("ctl", {"ssh", "n3-fab", "hostname"}).output, "n3\n");
  EXPECT_EQ(lab().on("ctl", {"ssh", "n3", "hostname"}).output, "n3\n");
  EXPECT_EQ(lab().on("n1", {"ssh", "n4-fab", "hostname"}).output, "n4\n");
}

TEST_F(LabItself, LosesANodeAndGetsItBack) {
  EXPECT_EQ(lab().tool("crash", {"n4"}).status.code, 0);
  EXPECT_EQ(lab().on("n4", {"true"}).status.code, 69);
  EXPECT_THAT(lab().tool("status").output, HasSubstr("node n4 is down"));
  EXPECT_NE(lab().on("ctl", {"ssh", "-o", "ConnectTimeout=1", "n4", "true"}).status.code, 0);

  EXPECT_EQ(lab().tool("boot", {"n4"}).status.code, 0);
  EXPECT_TRUE(comes_true(seconds(60), [&] {
    return lab().on("ctl", {"srun", "-w", "n4", "hostname"}, seconds(5)).output == "n4\n";
  }));
}

TEST_F(LabItself, PullsACableAndPlugsItIn) {
  const std::string connect = lab().write("connect.py", kConnect);

  lab().tool("cut", {"n2", "fab"});
  EXPECT_EQ(lab().on("n1", {connect, "n2-fab", "22"}).output, "silent\n");
  EXPECT_EQ(lab().on("ctl", {connect, "n2", "22"}).output, "open\n");

  lab().tool("join", {"n2"});
  EXPECT_EQ(lab().on("n1", {connect, "n2-fab", "22"}).output, "open\n");
}

TEST_F(LabItself, SaysThatItIsUpAlready) {
  const Result again = lab().tool("up");

  EXPECT_EQ(again.status.code, 0);
  EXPECT_THAT(again.output, HasSubstr("is already up"));
}

TEST_F(LabItself, SaysInOneLineWhyItCannotRun) {
  const Result result = Running({"/usr/bin/setpriv",
                                 "--bounding-set=-sys_admin",
                                 "--inh-caps=-sys_admin",
                                 LOCKSTEP_SOURCE_DIR "/tools/slurm-lab",
                                 "up",
                                 "--name",
                                 "test-without-power"})
                            .wait();

  EXPECT_EQ(result.status.code, 77);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors,
              ::testing::MatchesRegex("slurm-lab: cannot run here: namespaces, [^\n]*\n"));
}

TEST_F(LabItself, RefusesWhatItDoesNotUnderstand) {
  struct Case {
    Words words;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{"up", "--nodes", "0"}, "--nodes must be a number from 1 to 200, not '0'"},
      {{"up", "--nodes"}, "'--nodes' is unknown or needs a value"},
      {{"up", "--frob", "1"}, "'up' has no option '--frob'"},
      {{"up", "--block", "some"}, "--block must be one of drop reject isolate open, not 'some'"},
      {{"up", "--block", "isolate", "--slurm-net", "mgmt"},
       "isolate prevents Slurm from using mgmt"},
      {{"up", "--share", "/no/such"}, "--share must be a directory, not '/no/such'"},
      {{"up", "--name", "a/b"}, "--name can contain letters, digits, '.', '_' and '-', not 'a/b'"},
      {{"frob"}, "unknown command 'frob'"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.message);
    Words words = {LOCKSTEP_SOURCE_DIR "/tools/slurm-lab"};
    words.insert(words.end(), one.words.begin(), one.words.end());
    const Result result = Running(words).wait();
    EXPECT_EQ(result.status.code, 64);
    EXPECT_THAT(result.errors, HasSubstr(one.message));
  }
  EXPECT_THAT(lab().on("n9", {"true"}).errors, HasSubstr("unknown node 'n9'"));
}

// All descendants of `ancestor`, including nested namespaces, by process id on this machine.
std::set<int> descendants(int ancestor) {
  std::set<int> found;
  std::vector<int> todo = {ancestor};
  while (!todo.empty()) {
    const int pid = todo.back();
    todo.pop_back();
    found.insert(pid);
    const std::string number = std::to_string(pid);
    for (const std::string& child :
         split(read_text("/proc/" + number + "/task/" + number + "/children"), ' ')) {
      if (!child.empty()) {
        todo.push_back(std::stoi(child));
      }
    }
  }
  return found;
}

std::set<std::string> interfaces() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/sys/class/net")) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

bool any_alive(const std::set<int>& pids) {
  return std::any_of(pids.begin(), pids.end(), [](int pid) { return is_alive(pid); });
}

TEST_F(LabItself, LeavesNothingBehind) {
  const std::string mounts = read_text("/proc/self/mounts");
  const std::set<std::string> links = interfaces();
  auto other = std::make_unique<Lab>(Words{"--nodes", "2", "--ssh"});
  const fs::path root = other->root();
  // Waiting for this job would exceed the time limit of the test.
  Running job = other->start("ctl", {"srun", "-N2", "sleep", "10000"});
  EXPECT_TRUE(comes_true(seconds(60), [&] { return !other->processes("n2").empty(); }));
  const std::set<int> processes = descendants(std::stoi(read_text(root / "rack.pid")));
  EXPECT_GT(processes.size(), 15U);
  EXPECT_EQ(read_text("/proc/self/mounts"), mounts);
  EXPECT_EQ(interfaces(), links);

  other.reset();

  EXPECT_FALSE(any_alive(processes));
  EXPECT_FALSE(fs::exists(root));
  EXPECT_EQ(read_text("/proc/self/mounts"), mounts);
  EXPECT_EQ(interfaces(), links);
  EXPECT_NE(job.wait().status.shell_code(), 0);
}

TEST_F(LabItself, DiesWithTheProcessItIsTiedTo) {
  os::Child owner = os::start({.executable = "/bin/sleep",
                               .arguments = {"sleep", "600"},
                               .environment = {},
                               .inherited = {},
                               .directory = ""});
  const std::string tool = LOCKSTEP_SOURCE_DIR "/tools/slurm-lab";
  const std::string name = "test-tied-" + std::to_string(::getpid());
  Running({tool, "up", "--name", name, "--nodes", "1", "--dies-with", std::to_string(owner.pid())})
      .wait();
  const fs::path root = split(Running({tool, "path", "--name", name}).wait().output, '\n').at(0);
  const std::set<int> processes = descendants(std::stoi(read_text(root / "rack.pid")));

  owner.signal(SIGKILL);

  EXPECT_TRUE(comes_true(seconds(60), [&] { return !any_alive(processes); }));
  EXPECT_FALSE(fs::exists(root));
  owner.wait();
}

}  // namespace
}  // namespace lockstep::testing

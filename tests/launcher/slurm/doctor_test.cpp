// SPDX-License-Identifier: Apache-2.0
// lockstep network and lockstep doctor on a real Slurm.
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NetworkCommand : public LaunchOnLab {};
class Doctor : public LaunchOnLab {};

TEST_F(NetworkCommand, SaysOnWhichNetworkAllNodesTalk) {
  const Result result =
      lab().on("ctl", {"salloc", "-Q", "-N2", "--ntasks-per-node=2", lockstep(), "network"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("export MASTER_ADDR=10.12.0.1\n"),
                    HasSubstr("export NCCL_SOCKET_IFNAME==fab0\n"),
                    HasSubstr("export GLOO_SOCKET_IFNAME=fab0\n"),
                    HasSubstr("export OMPI_MCA_btl_tcp_if_include=fab0\n"),
                    HasSubstr("export LOCKSTEP_NODES='n1 n2'\n"),
                    HasSubstr("export LOCKSTEP_ADDRESSES='10.12.0.1 10.12.0.2'\n")));
  EXPECT_THAT(result.errors, HasSubstr("10.11.0.0/24 (mgmt0): n1 -> n2 no answer"));
  EXPECT_FALSE(std::filesystem::exists(lab().path("runs")));
}

TEST_F(NetworkCommand, LetsTorchrunMeetOverIt) {
  if (lab().on("n1", {"/usr/bin/python3", "-c", "import torch"}).status.code != 0) {
    GTEST_SKIP() << "/usr/bin/python3 has no torch";
  }
  if (const auto fault = find_torchrun_fault(lab())) {
    GTEST_SKIP() << *fault;
  }
  lab().write("sum.py",
              "import torch, torch.distributed as d\n"
              "d.init_process_group('gloo')\n"
              "x = torch.ones(1) * (d.get_rank() + 1)\n"
              "d.all_reduce(x)\n"
              "print('sum', x.item(), flush=True)\n");
  // torchrun 1.13 of Debian cannot parse its own defaults of -r and -t; these are equivalent.
  const JobEnd end = lab().run_job(
      {"-N2"},
      "#!/bin/bash\n"
      "network=$(" +
          lockstep() +
          " network) || exit\n"
          "eval \"$network\"\n"
          "srun bash -c '/usr/bin/python3 -m torch.distributed.run -r 9:1 -t 9:1 --nnodes 2 "
          "--nproc_per_node 2 --node_rank $SLURM_NODEID --master_addr $MASTER_ADDR "
          "--master_port $MASTER_PORT sum.py'\n",
      seconds(120));

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output, HasSubstr("sum 10.0"));
}

TEST_F(NetworkCommand, SaysNothingWhereNoneWillDo) {
  const Result result =
      lab().on("ctl", {"salloc", "-Q", "-N2", lockstep(), "network", "--interface", "mgmt0"});

  EXPECT_EQ(result.status.code, 69);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_THAT(result.errors, HasSubstr("no usable network for this job"));
}

TEST_F(NetworkCommand, KeepsWhatIsSetAndNeedsNoInterfaceOnOneNode) {
  const Result result =
      lab().shell("ctl", "MASTER_PORT=23456 salloc -Q -N1 " + lockstep() + " network");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("export MASTER_ADDR=127.0.0.1\n"),
                    HasSubstr("export MASTER_PORT=23456\n"),
                    Not(HasSubstr("SOCKET_IFNAME"))));
}

TEST_F(NetworkCommand, IsNotForTheTasksOfAStep) {
  const Result result = lab().on("ctl", {"srun", "-N2", "-n2", lockstep(), "network"});

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("inside a step with several tasks"));
}

TEST_F(Doctor, LooksAtTheLoginNode) {
  const Result result = lab().on("ctl", {lockstep(), "doctor", "--quick"});

  EXPECT_EQ(result.status.code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("doctor on ctl"), HasSubstr("fab0 up"), HasSubstr("verdict:")));
}

TEST_F(Doctor, LooksAtAllNodesOfAJobAtOnce) {
  const Result result =
      lab().shell("ctl", "salloc -Q -N3 -c2 " + lockstep() + " doctor --json", seconds(120));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  const auto json = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.output;
  EXPECT_EQ(json.at("nodes").size(), 3U);
  EXPECT_THAT(json.at("gang").at("reason").get<std::string>(), HasSubstr("(fab0)"));
  EXPECT_EQ(json.at("gang").at("clocks").size(), 3U);
  std::map<std::string, std::string> verdicts;
  for (const auto& finding : json.at("findings")) {
    verdicts[finding.at("subject").get<std::string>()] = finding.at("verdict").get<std::string>();
  }
  EXPECT_EQ(verdicts["controller"], "ok");
  EXPECT_EQ(verdicts["cpus per task"], "warning");  // srun does not inherit -c
  EXPECT_EQ(verdicts["10.11.0.0/24 (mgmt0)"], "warning");
  EXPECT_EQ(verdicts["10.12.0.0/24 (fab0)"], "ok");
  EXPECT_EQ(verdicts["host names"], "warning");  // they resolve to mgmt0
  EXPECT_EQ(verdicts["shared home"], "ok");
  EXPECT_EQ(verdicts["offset"], "ok");
  EXPECT_EQ(verdicts["Python"], "ok");  // equal on all nodes
}

TEST_F(Doctor, ShowsWhoDoesNotReachWhom) {
  const Result result =
      lab().shell("ctl", "salloc -Q -N3 --ntasks-per-node=2 " + lockstep() + " doctor --quick");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("n1  - NO NO"), HasSubstr("n2 NO  - NO"), HasSubstr("n3 NO NO  -")));
}

TEST(DoctorOfACutCable, NamesTheNode) {
  if (!shared_lab().reason_against().empty()) {
    GTEST_SKIP() << shared_lab().reason_against();
  }
  Lab lab({"--nodes", "3", "--slurm-net", "mgmt", "--block", "open"});
  lab.work_in("work");
  lab.tool("cut", {"n2", "fab"});

  const Result result = lab.shell("ctl", "salloc -Q -N3 " + copy_launcher(lab) + " doctor --quick");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("fab0: 2 of 3 nodes have it; missing on: n2"));
}

TEST(DoctorOfANodeThatIsGone, NamesItAndDoesNotHang) {
  if (!shared_lab().reason_against().empty()) {
    GTEST_SKIP() << shared_lab().reason_against();
  }
  Lab lab({"--nodes", "3"});
  lab.work_in("work");
  lab.write("job.sh",
            "#!/bin/bash\ntouch begun; while [ ! -e go ]; do sleep 0.1; done\n" +
                copy_launcher(lab) + " doctor --quick --patience 15; echo code $?\n");
  const std::string id = lab.submit({"-N3"}, read_text(lab.path("job.sh")));
  ASSERT_TRUE(lab.has_file("begun"));
  lab.tool("cut", {"n2"});
  lab.write("go", "");

  const JobEnd end = lab.wait_for_job(id);

  EXPECT_THAT(end.output,
              AllOf(HasSubstr("n2 did not answer"), HasSubstr("code 1"), HasSubstr("verdict:")));
}

}  // namespace
}  // namespace lockstep::testing

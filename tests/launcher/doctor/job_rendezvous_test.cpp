// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/job_rendezvous.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::testing {
namespace {

using doctor::JobRendezvous;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

JobRendezvous two_nodes() {
  return {.network = "10.12.0.0/24",
          .reason = "the only one",
          .details = {},
          .nodes = {{.name = "n1", .address = "10.12.0.1", .interface = "fab0", .roce_gid = {}},
                    {.name = "n2", .address = "10.12.0.2", .interface = "fab0", .roce_gid = {}}},
          .port = 23456};
}

TEST(JobRendezvous, IsSaidToEveryLibrary) {
  EXPECT_EQ(doctor::to_shell(doctor::variables_of(two_nodes(), {})),
            "export MASTER_ADDR=10.12.0.1\n"
            "export MASTER_PORT=23456\n"
            "export GLOO_SOCKET_IFNAME=fab0\n"
            "export NCCL_SOCKET_IFNAME==fab0\n"
            "export TP_SOCKET_IFNAME=fab0\n"
            "export HOROVOD_GLOO_IFACE=fab0\n"
            "export USE_LIBUV=0\n"
            "export OMPI_MCA_btl_tcp_if_include=fab0\n"
            "export OMPI_MCA_oob_tcp_if_include=fab0\n"
            "export LOCKSTEP_NODES='n1 n2'\n"
            "export LOCKSTEP_ADDRESSES='10.12.0.1 10.12.0.2'\n");
}

TEST(JobRendezvous, OfOneNodeNeedsNoInterface) {
  JobRendezvous rendezvous = two_nodes();
  rendezvous.nodes = {{.name = "n1", .address = "127.0.0.1", .interface = "", .roce_gid = {}}};
  EXPECT_THAT(doctor::variables_of(rendezvous, {}),
              ElementsAre(Pair("MASTER_ADDR", "127.0.0.1"),
                          Pair("MASTER_PORT", "23456"),
                          Pair("HOROVOD_GLOO_IFACE", "lo"),
                          Pair("USE_LIBUV", "0"),
                          Pair("LOCKSTEP_NODES", "n1"),
                          Pair("LOCKSTEP_ADDRESSES", "127.0.0.1")));
}

TEST(JobRendezvous, KeepsWhatTheUserHasSet) {
  const os::Environment environment = {{"NCCL_SOCKET_IFNAME", "ib"}, {"MASTER_ADDR", ""}};
  const auto variables = doctor::variables_of(two_nodes(), environment);
  EXPECT_THAT(variables, Contains(Pair("NCCL_SOCKET_IFNAME", "ib")));
  EXPECT_THAT(variables, Contains(Pair("MASTER_ADDR", "10.12.0.1")));
}

TEST(JobRendezvous, WhoseInterfacesHaveSeveralNamesSaysSo) {
  JobRendezvous rendezvous = two_nodes();
  EXPECT_THAT(doctor::remarks_on(rendezvous), IsEmpty());
  rendezvous.nodes[1].interface = "eth1";
  const auto variables = doctor::variables_of(rendezvous, {});
  EXPECT_THAT(variables, Contains(Pair("NCCL_SOCKET_IFNAME", "=eth1,fab0")));
  EXPECT_THAT(variables, Contains(Pair("OMPI_MCA_btl_tcp_if_include", "10.12.0.0/24")));
  EXPECT_THAT(variables, Not(Contains(Key("GLOO_SOCKET_IFNAME"))));
  EXPECT_THAT(doctor::remarks_on(rendezvous), ElementsAre(HasSubstr("eth1, fab0")));
}

TEST(JobRendezvous, ReportsTheGidThatAllNodesHave) {
  JobRendezvous rendezvous = two_nodes();
  rendezvous.nodes[0].roce_gid = rendezvous.nodes[1].roce_gid = 3;
  EXPECT_THAT(doctor::variables_of(rendezvous, {}), Contains(Pair("NCCL_IB_GID_INDEX", "3")));
  rendezvous.nodes[1].roce_gid = 5;
  EXPECT_THAT(doctor::variables_of(rendezvous, {}), Not(Contains(Key("NCCL_IB_GID_INDEX"))));
  EXPECT_THAT(doctor::remarks_on(rendezvous), ElementsAre(HasSubstr("RoCE GIDs")));
}

TEST(JobRendezvous, LeavesLibuvOnInLargeJobs) {
  const std::pair<std::string, std::string> disabled("USE_LIBUV", "0");
  const auto has = [&](const os::Environment& environment) {
    const auto variables = doctor::variables_of(two_nodes(), environment);
    return std::count(variables.begin(), variables.end(), disabled) == 1;
  };
  EXPECT_TRUE(has({{"SLURM_NTASKS", "1024"}}));
  EXPECT_FALSE(has({{"SLURM_NTASKS", "1025"}}));
  EXPECT_THAT(doctor::variables_of(two_nodes(), {{"USE_LIBUV", "1"}}),
              Contains(Pair("USE_LIBUV", "1")));
}

TEST(JobRendezvous, IsJsonForPrograms) {
  const JobRendezvous rendezvous = two_nodes();
  const auto json =
      nlohmann::json::parse(doctor::to_json(rendezvous, doctor::variables_of(rendezvous, {})));
  EXPECT_EQ(json.at("nodes").at(1).at("address"), "10.12.0.2");
  EXPECT_EQ(json.at("variables").at("MASTER_PORT"), "23456");
}

}  // namespace
}  // namespace lockstep::testing

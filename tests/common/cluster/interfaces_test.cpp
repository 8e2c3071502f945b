// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/interfaces.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::cluster {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::Optional;

// A fake /sys with the files that a test writes.
class Interfaces : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& line) {
    const auto file = sysfs_.path() / path;
    os::make_directories(file.parent_path());
    std::ofstream(file) << line << '\n';
  }
  void make(const std::string& directory) { os::make_directories(sysfs_.path() / directory); }

  // One entry in the GID table of a port.
  struct Gid {
    int index;
    std::string gid;
    std::string type;
    std::string interface;
  };
  void write_gid(const std::string& port, const Gid& entry) {
    const std::string at = "class/infiniband/" + port;
    write(fmt::format("{}/gids/{}", at, entry.index), entry.gid);
    write(fmt::format("{}/gid_attrs/types/{}", at, entry.index), entry.type);
    write(fmt::format("{}/gid_attrs/ndevs/{}", at, entry.index), entry.interface);
  }

  Address describe(const std::string& interface) {
    const std::vector<os::InterfaceAddress> one = {
        {.interface = interface, .text = "10.0.0.1", .prefix = 24}};
    return describe_addresses(one, sysfs_.path()).at(0);
  }
  std::optional<int> gid_index(const std::string& interface) {
    return find_roce_gid_index(interface, sysfs_.path());
  }

 private:
  os::TemporaryDirectory sysfs_;
};

TEST_F(Interfaces, KeepWhatTheKernelSaysOfTheAddress) {
  const std::vector<os::InterfaceAddress> one = {
      {.interface = "eth0", .text = "fd00::1", .prefix = 64, .is_v6 = true, .is_loopback = false}};

  EXPECT_EQ(describe_addresses(one, "/no/such/folder").at(0),
            (Address{.interface = "eth0", .text = "fd00::1", .prefix = 64, .is_v6 = true}));
}

TEST_F(Interfaces, AreAsFastAsSysfsSays) {
  const struct {
    std::string text;
    int speed;
  } rows[] = {{"100000", 100000}, {"-1", 0}, {"0", 0}, {"4294967295", 0}, {"", 0}, {"fast", 0}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    write("class/net/eth0/speed", row.text);
    EXPECT_EQ(describe("eth0").speed_mbps, row.speed);
  }
  EXPECT_EQ(describe("eth1").speed_mbps, 0);
}

TEST_F(Interfaces, HaveRdmaWithAnAdapterBehindThem) {
  write("class/net/ib0/type", "32");
  write("class/net/eth0/type", "1");
  write("class/net/roce0/type", "1");
  make("class/net/roce0/device/infiniband/mlx5_0");

  EXPECT_TRUE(describe("ib0").is_rdma);
  EXPECT_TRUE(describe("roce0").is_rdma);
  EXPECT_FALSE(describe("eth0").is_rdma);
  EXPECT_FALSE(describe("none").is_rdma);
}

TEST_F(Interfaces, HaveRdmaThroughVlansAndBondsButNotThroughBridges) {
  make("class/net/roce0/device/infiniband/mlx5_0");
  make("class/net/bond0/lower_roce0");
  make("class/net/bond0.100/lower_bond0");
  make("class/net/br0/lower_roce0");
  make("class/net/br0/bridge");
  make("class/net/loop0/lower_loop0");

  EXPECT_TRUE(describe("bond0").is_rdma);
  EXPECT_TRUE(describe("bond0.100").is_rdma);
  EXPECT_FALSE(describe("br0").is_rdma);
  EXPECT_FALSE(describe("loop0").is_rdma);
}

TEST_F(Interfaces, HaveTheFirstRoceV2GidWithAnIpv4Address) {
  const std::string v4 = "0000:0000:0000:0000:0000:ffff:0a0c:0001";
  const std::string link_local = "fe80:0000:0000:0000:ee0d:9aff:fe2e:1b1a";
  write_gid("mlx5_0/ports/1", {0, link_local, "IB/RoCE v1", "roce0"});
  write_gid("mlx5_0/ports/1", {1, link_local, "RoCE v2", "roce0"});
  write_gid("mlx5_0/ports/1", {2, v4, "IB/RoCE v1", "roce0"});
  write_gid("mlx5_0/ports/1", {10, v4, "RoCE v2", "roce0"});
  write_gid("mlx5_0/ports/1", {3, v4, "RoCE v2", "roce0"});
  write_gid("mlx5_1/ports/1", {5, v4, "RoCE v2", "roce0.100"});
  write_gid("mlx5_2/ports/1", {0, link_local, "IB/RoCE v1", "ib0"});

  EXPECT_THAT(gid_index("roce0"), Optional(3));
  EXPECT_THAT(gid_index("roce0.100"), Optional(5));
  EXPECT_EQ(gid_index("ib0"), std::nullopt);
  EXPECT_EQ(gid_index("eth0"), std::nullopt);
}

TEST(ListAddresses, HasThoseOfThisMachine) {
  EXPECT_THAT(list_addresses(), Contains(Field(&Address::text, "127.0.0.1")));
  EXPECT_EQ(find_roce_gid_index("lo"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::cluster

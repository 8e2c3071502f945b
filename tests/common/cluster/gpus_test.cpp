// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/gpus.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

class VisibleGpus : public ::testing::Test {
 protected:
  VisibleGpus() {
    for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "null"}) {
      std::ofstream file(devices_.path() / name);
    }
  }
  int count(const os::Environment& environment) {
    return visible_gpus(environment, devices_.path());
  }

 private:
  os::TemporaryDirectory devices_;
};

TEST_F(VisibleGpus, AreTheNumberedDevices) {
  EXPECT_EQ(count({}), 3);
}

TEST_F(VisibleGpus, AreCutToWhatTheVariableNames) {
  EXPECT_EQ(count({{"CUDA_VISIBLE_DEVICES", "0,2"}}), 2);
  EXPECT_EQ(count({{"CUDA_VISIBLE_DEVICES", "0,-1,2"}}), 1);
  EXPECT_EQ(count({{"CUDA_VISIBLE_DEVICES", "0,1,2,3,4"}}), 3);
  EXPECT_EQ(count({{"CUDA_VISIBLE_DEVICES", "-1"}}), 0);
  EXPECT_EQ(count({{"CUDA_VISIBLE_DEVICES", ""}}), 0);
}

class GpuNumaNodes : public ::testing::Test {
 protected:
  void add_gpu(const std::string& address, int minor, const std::string& node) {
    write("proc/driver/nvidia/gpus/" + address + "/information",
          "Model: \t\t NVIDIA X 200\nBus Location: \t " + address + "\nDevice Minor: \t " +
              std::to_string(minor) + "\nGPU Excluded:\t No\n");
    write("sys/bus/pci/devices/" + address + "/numa_node", node + "\n");
  }
  void open_device(int minor) { write("dev/nvidia" + std::to_string(minor), ""); }
  std::vector<std::optional<int>> nodes() { return gpu_numa_nodes(root_.path()); }

 private:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  os::TemporaryDirectory root_;
};

TEST_F(GpuNumaNodes, AreInTheOrderOfTheBus) {
  add_gpu("0000:c1:00.0", 0, "1");
  add_gpu("0000:41:00.0", 1, "0");
  add_gpu("0000:e1:00.0", 2, "-1");
  for (const int minor : {0, 1, 2}) {
    open_device(minor);
  }

  EXPECT_THAT(nodes(), ElementsAre(Optional(0), Optional(1), std::nullopt));
}

TEST_F(GpuNumaNodes, LeaveOutGpusThatAreClosed) {
  add_gpu("0000:41:00.0", 0, "0");
  add_gpu("0000:c1:00.0", 1, "1");
  open_device(1);

  EXPECT_THAT(nodes(), ElementsAre(Optional(1)));
}

TEST_F(GpuNumaNodes, AreNoneWithoutGpus) {
  EXPECT_THAT(nodes(), IsEmpty());
}

TEST(VisibleGpusOfAMachineWithout, AreNone) {
  EXPECT_EQ(visible_gpus({}, "/no/such/folder"), 0);
}

}  // namespace
}  // namespace lockstep::cluster

// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/gpus.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/cluster/compute_mode.h"
#include "common/cluster/fake_gpu_driver.h"
#include "common/os/files.h"
#include "common/os/library.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

// Two GPUs with the fake NVML; GPU 1 is in MIG mode, with slices of the GPU instances 3 and 5.
class GpuDeviceList : public ::testing::Test {
 protected:
  GpuDeviceList() {
    state() = FakeNvmlState{};
    state().count = 2;
    state().mig_device = 1;
    write("dev/nvidia0", "");
    write("dev/nvidia1", "");
    write("proc/driver/nvidia/capabilities/mig/config", "");
    add_slice(3, 30);
    add_slice(5, 32);
    write("dev/nvidia-caps/nvidia-cap30", "");
    write("dev/nvidia-caps/nvidia-cap32", "");
  }
  FakeNvmlState& state() { return *library_->function<FakeNvmlState* (*)()>("fake_nvml_state")(); }
  void add_slice(int instance, int capability) {
    write(fmt::format("proc/driver/nvidia/capabilities/gpu1/mig/gi{}/access", instance),
          fmt::format("DeviceFileMinor: {}\nDeviceFileMode: 292\n", capability));
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root() / name).parent_path());
    std::ofstream(root() / name) << text;
  }
  const std::filesystem::path& root() const { return root_.path(); }
  GpuDevices list(const os::Environment& environment = {}) {
    return list_gpu_devices(environment, {.root = root(), .nvml = LOCKSTEP_FAKE_NVML});
  }
  static std::vector<std::string> names(const GpuDevices& found) {
    std::vector<std::string> all;
    for (const GpuDevice& one : found.devices) {
      all.push_back(one.name);
    }
    return all;
  }

 private:
  std::optional<os::Library> library_ = os::Library::find(LOCKSTEP_FAKE_NVML);
  os::TemporaryDirectory root_;
};

TEST_F(GpuDeviceList, HasSlicesInPlaceOfTheirGpu) {
  const GpuDevices found = list();

  EXPECT_THAT(names(found), ElementsAre("0", "MIG-0-uuid", "MIG-2-uuid"));
  EXPECT_EQ(found.devices.at(2).gpu, 1);
  EXPECT_TRUE(found.has_slices());
  EXPECT_EQ(found.fault, "");
}

TEST_F(GpuDeviceList, FollowsTheVariable) {
  EXPECT_THAT(names(list({{"CUDA_VISIBLE_DEVICES", "1"}})),
              ElementsAre("MIG-0-uuid", "MIG-2-uuid"));
  EXPECT_THAT(names(list({{"CUDA_VISIBLE_DEVICES", "GPU-1"}})),
              ElementsAre("MIG-0-uuid", "MIG-2-uuid"));
  EXPECT_THAT(names(list({{"CUDA_VISIBLE_DEVICES", "MIG-2-uuid,0,-1,1"}})),
              ElementsAre("MIG-2-uuid", "0"));
  EXPECT_EQ(list({{"CUDA_VISIBLE_DEVICES", "MIG-2-uuid"}}).devices.at(0).gpu, 1);
  EXPECT_THAT(names(list({{"CUDA_VISIBLE_DEVICES", ""}})), IsEmpty());
}

// A job in a container can have slices by name although procfs does not show them.
TEST_F(GpuDeviceList, CountsNamedSlicesWithoutNvml) {
  std::filesystem::remove_all(root() / "proc");

  EXPECT_EQ(list({{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b,MIG-c"}}).count(), 3);
  EXPECT_THAT(names(list()), ElementsAre("0", "1")) << "MIG is unknown";
}

TEST_F(GpuDeviceList, LeavesOutSlicesWithoutPermission) {
  std::filesystem::remove(root() / "dev/nvidia-caps/nvidia-cap30");

  EXPECT_THAT(names(list()), ElementsAre("0", "MIG-2-uuid"));
}

TEST_F(GpuDeviceList, SaysWhyThereAreNoSlices) {
  const os::Environment only_mig = {{"CUDA_VISIBLE_DEVICES", "1"}};
  std::filesystem::remove(root() / "dev/nvidia-caps/nvidia-cap30");
  std::filesystem::remove(root() / "dev/nvidia-caps/nvidia-cap32");
  EXPECT_THAT(list(only_mig).fault,
              AllOf(HasSubstr("no permission to use the MIG slices of GPU 1"),
                    HasSubstr("dev/nvidia-caps/nvidia-cap32")));
  EXPECT_EQ(list().fault, "") << "GPU 0 can be used";

  state().slices = 0;
  EXPECT_THAT(list(only_mig).fault, HasSubstr("no permission")) << "procfs shows the slices";
  state().missing_slice = 4;
  EXPECT_THAT(list(only_mig).fault, HasSubstr("no permission"));
  state().missing_slice = 6;
  for (const char* name : {"gi3", "gi5"}) {
    std::filesystem::remove_all(root() / "proc/driver/nvidia/capabilities/gpu1/mig" / name);
  }
  EXPECT_EQ(list(only_mig).fault, "GPU 1 is in MIG mode but has no slices");
  EXPECT_EQ(list(only_mig).count(), 0);
}

TEST_F(GpuDeviceList, SaysWhichGpusAcceptNoFurtherProcess) {
  const auto closed = [](const std::vector<int>& gpus) {
    return list_closed_gpus(LOCKSTEP_FAKE_NVML, gpus);
  };
  state().processes = 1;
  EXPECT_THAT(closed({}), IsEmpty()) << "the default mode";
  state().compute_mode = 3;
  EXPECT_THAT(closed({}),
              ElementsAre("GPU 0 is in exclusive mode, and process 4711 uses it",
                          "GPU 1 is in exclusive mode, and process 4711 uses it"));
  EXPECT_THAT(closed({1}), ElementsAre("GPU 1 is in exclusive mode, and process 4711 uses it"));
  state().processes = 0;
  EXPECT_THAT(closed({}), IsEmpty()) << "free for one process, which can be MPS";
  state().compute_mode = 2;
  EXPECT_THAT(closed({0}), ElementsAre("GPU 0 is in prohibited mode"));
  EXPECT_THAT(list_closed_gpus("libno-such-thing.so", {}), IsEmpty());
}

TEST(VisibleGpusOfAMachineWithout, AreNone) {
  EXPECT_EQ(visible_gpus({}, "/no/such/folder"), 0);
}

}  // namespace
}  // namespace lockstep::cluster

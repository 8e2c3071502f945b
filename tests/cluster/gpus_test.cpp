// SPDX-License-Identifier: Apache-2.0
#include "cluster/gpus.h"

#include <fstream>
#include <gmock/gmock.h>

#include "os/files.h"

namespace lockstep::cluster {
namespace {

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

TEST(VisibleGpusOfAMachineWithout, AreNone) {
  EXPECT_EQ(visible_gpus({}, "/no/such/folder"), 0);
}

}  // namespace
}  // namespace lockstep::cluster

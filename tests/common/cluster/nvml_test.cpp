// SPDX-License-Identifier: Apache-2.0
// Uses a fake libnvidia-ml.so, fake_gpu_driver.cpp.
#include "common/cluster/nvml.h"

#include <functional>
#include <gmock/gmock.h>
#include <optional>

#include "common/cluster/fake_gpu_driver.h"
#include "common/os/library.h"

namespace lockstep::cluster {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override { state() = FakeNvmlState{}; }
  FakeNvmlState& state() { return *library_->function<FakeNvmlState* (*)()>("fake_nvml_state")(); }
  // The second of two samples, two seconds apart; `between` runs in between.
  contract::GpuSample second_sample(
      Nvml& nvml, const std::function<void()>& between = [] {}) {
    const auto now = Nvml::Clock::now();
    nvml.sample(now);
    between();
    return nvml.sample(now + seconds(2)).at(0);
  }

  std::optional<os::Library> library_ = os::Library::find(LOCKSTEP_FAKE_NVML);
};

TEST_F(NvmlTest, ReportsEveryValueInItsUnit) {
  Nvml nvml(LOCKSTEP_FAKE_NVML);
  ASSERT_THAT(nvml.why_not(), IsEmpty());

  const contract::GpuSample sample = second_sample(nvml, [this] {
    state().sent += 4000;
    state().received += 8000;
  });

  EXPECT_EQ(sample.index, 0);
  EXPECT_EQ(sample.uuid, "GPU-0-uuid");
  EXPECT_EQ(sample.name, "NVIDIA Fake");
  EXPECT_EQ(sample.bus_id, "00000000:1A:00.0");
  EXPECT_EQ(sample.utilisation, 0.93);
  EXPECT_EQ(sample.memory_utilisation, 0.41);
  EXPECT_EQ(sample.memory_bytes, 37'000);
  EXPECT_EQ(sample.memory_total_bytes, 100'000);
  EXPECT_EQ(sample.power_watts, 612.5);
  EXPECT_EQ(sample.energy_joules, 7000);
  EXPECT_EQ(sample.temperature, 64);
  EXPECT_EQ(sample.sm_clock_mhz, 1980);
  EXPECT_EQ(sample.memory_clock_mhz, 3201);
  EXPECT_EQ(sample.ecc_errors, 3);
  EXPECT_EQ(sample.pcie_sent_bytes_per_second, 2000);
  EXPECT_EQ(sample.pcie_received_bytes_per_second, 4000);
  EXPECT_EQ(sample.nvlink_sent_bytes_per_second, 2000 * 1024);
  EXPECT_EQ(sample.nvlink_received_bytes_per_second, 4000 * 1024);
  EXPECT_EQ(sample.xid, std::nullopt);
}

TEST_F(NvmlTest, HasNoRatesInTheFirstSample) {
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const auto samples = nvml.sample();

  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples[0].pcie_sent_bytes_per_second, std::nullopt);
  EXPECT_EQ(samples[0].nvlink_sent_bytes_per_second, std::nullopt);
}

TEST_F(NvmlTest, AsksOlderDriversForPciesRate) {
  state().has_pcie_counters = false;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const contract::GpuSample sample = second_sample(nvml);

  EXPECT_EQ(sample.pcie_sent_bytes_per_second, 11'000);
  EXPECT_EQ(sample.pcie_received_bytes_per_second, 22'000);
}

TEST_F(NvmlTest, TakesAllMemoryThatIsUsedFromOlderDrivers) {
  state().has_reserved_memory = false;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const contract::GpuSample sample = second_sample(nvml);

  EXPECT_EQ(sample.memory_bytes, 40'000);
  EXPECT_EQ(sample.memory_total_bytes, 100'000);
}

TEST_F(NvmlTest, FollowsANarrowCounterOverItsEnd) {
  state().is_narrow = true;
  state().sent = 0xFFFFFFFF;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const contract::GpuSample sample = second_sample(nvml, [this] { state().sent = 99; });

  EXPECT_EQ(sample.pcie_sent_bytes_per_second, 50);
}

TEST_F(NvmlTest, LeavesARateOutWhenACounterWentBack) {
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const contract::GpuSample sample = second_sample(nvml, [this] { state().sent = 1; });

  EXPECT_EQ(sample.pcie_sent_bytes_per_second, std::nullopt);
}

TEST_F(NvmlTest, LeavesOutWhatTheDriverDoesNotTell) {
  state().is_silent = true;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  contract::GpuSample bare;
  bare.uuid = "GPU-0-uuid";
  bare.name = "NVIDIA Fake";
  bare.bus_id = "00000000:1A:00.0";
  EXPECT_EQ(second_sample(nvml), bare);
}

TEST_F(NvmlTest, KeepsTheLastXidOfEachGpu) {
  state().count = 2;
  Nvml nvml(LOCKSTEP_FAKE_NVML);
  state().xid = 79;
  state().xid_device = 1;

  EXPECT_EQ(nvml.sample().at(1).xid, 79);
  EXPECT_EQ(nvml.sample().at(1).xid, 79);
  EXPECT_EQ(nvml.sample().at(0).xid, std::nullopt);
}

TEST_F(NvmlTest, ShowsTheOthersWhenAGpuIsLost) {
  state().count = 3;
  state().lost_device = 1;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const auto samples = nvml.sample();

  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(samples[1].index, 2);
}

TEST_F(NvmlTest, SaysWhyThereAreNone) {
  EXPECT_THAT(Nvml("libno-such-thing.so").why_not(),
              HasSubstr("libno-such-thing.so was not found"));
  state().init_result = 9;
  EXPECT_THAT(Nvml(LOCKSTEP_FAKE_NVML).why_not(), HasSubstr("Driver Not Loaded"));
  state() = FakeNvmlState{};
  state().count = 0;
  EXPECT_THAT(Nvml(LOCKSTEP_FAKE_NVML).why_not(), HasSubstr("no access to a GPU"));
  EXPECT_THAT(Nvml("libc.so.6").why_not(), HasSubstr("too old"));
  EXPECT_THAT(Nvml("libc.so.6").sample(), IsEmpty());
}

TEST_F(NvmlTest, SamplesSlicesInsteadOfAGpuInMigMode) {
  state().count = 3;
  state().mig_device = 1;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const auto now = Nvml::Clock::now();
  nvml.sample(now);
  const auto samples = nvml.sample(now + seconds(2));

  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].uuid, "GPU-0-uuid");
  EXPECT_EQ(samples[1].uuid, "MIG-0-uuid");
  EXPECT_EQ(samples[2].uuid, "MIG-2-uuid") << "number 1 is free";
  EXPECT_EQ(samples[3].uuid, "GPU-2-uuid");
  for (int index = 0; index < 4; ++index) {
    EXPECT_EQ(samples[static_cast<size_t>(index)].index, index);
  }
  const contract::GpuSample& slice = samples[2];
  EXPECT_EQ(slice.name, "NVIDIA Fake MIG 2g.20gb");
  EXPECT_EQ(slice.bus_id, samples[1].bus_id);
  EXPECT_EQ(slice.slice_of, 1);
  EXPECT_EQ(slice.memory_total_bytes, 20'000);
  EXPECT_EQ(slice.memory_bytes, 5'000);
  EXPECT_EQ(slice.utilisation, 0.75);
  EXPECT_EQ(slice.memory_utilisation, 0.2);
  EXPECT_EQ(slice.temperature, 64) << "of the GPU";
  EXPECT_DOUBLE_EQ(slice.slice_share.value_or(0), 2.0 / 7);
  EXPECT_DOUBLE_EQ(slice.power_watts.value_or(0), 612.5 * 2 / 7);
  EXPECT_DOUBLE_EQ(slice.energy_joules.value_or(0), 7000.0 * 2 / 7);
  EXPECT_EQ(slice.pcie_sent_bytes_per_second, std::nullopt) << "known for the whole GPU only";
  EXPECT_EQ(samples[0].slice_of, std::nullopt);
}

TEST_F(NvmlTest, LeavesOutTheUtilizationOfSlicesBeforeHopper) {
  state().mig_device = 0;
  state().has_gpm = false;
  Nvml nvml(LOCKSTEP_FAKE_NVML);

  const contract::GpuSample slice = second_sample(nvml);

  EXPECT_EQ(slice.utilisation, std::nullopt);
  EXPECT_EQ(slice.memory_bytes, 5'000);
}

TEST_F(NvmlTest, KeepsTheXidOfTheSliceThatCausedIt) {
  state().mig_device = 0;
  Nvml nvml(LOCKSTEP_FAKE_NVML);
  state().xid = 31;
  state().xid_instance = 5;  // of slice 2

  const auto samples = nvml.sample();

  EXPECT_EQ(samples.at(0).xid, std::nullopt);
  EXPECT_EQ(samples.at(1).xid, 31);
}

TEST_F(NvmlTest, SaysThatNoSliceCanBeUsed) {
  state().mig_device = 0;
  state().slices = 0;

  EXPECT_THAT(Nvml(LOCKSTEP_FAKE_NVML).why_not(), HasSubstr("MIG mode"));
}

TEST_F(NvmlTest, GivesBackSamplesOfSlices) {
  state().mig_device = 0;
  { const Nvml nvml(LOCKSTEP_FAKE_NVML); }

  EXPECT_EQ(state().open_gpm, 0);
}

TEST_F(NvmlTest, GivesBackWhatItTook) {
  { const Nvml nvml(LOCKSTEP_FAKE_NVML); }

  EXPECT_EQ(state().inits, 1);
  EXPECT_EQ(state().shutdowns, 1);
  EXPECT_EQ(state().open_sets, 0);
}

}  // namespace
}  // namespace lockstep::cluster

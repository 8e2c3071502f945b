// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/node_record.h"

#include <fmt/format.h>
#include <utility>

// Interface counters count from the boot of a node and belong to the host, not to the run. Only
// differences between two samples are used. Without a previous sample, or after a counter has
// decreased (reboot, or another host in this node slot), there is no rate for this sample.
namespace lockstep::monitor {
namespace {

struct Traffic {
  int64_t received = 0;
  int64_t sent = 0;
};

Traffic traffic_of(const contract::NodeSample& sample) {
  Traffic sum;
  for (const contract::InterfaceSample& interface : sample.interfaces) {
    if (interface.name != "lo") {
      sum.received += interface.received_bytes;
      sum.sent += interface.sent_bytes;
    }
  }
  return sum;
}

// Nothing if the counter was reset between the two samples.
std::optional<double> rate_of(int64_t before, int64_t after, double seconds) {
  return after < before || seconds <= 0
             ? std::nullopt
             : std::optional(static_cast<double>(after - before) / seconds);
}

}  // namespace

void NodeRecord::add(contract::NodeSample sample) {
  const double time = sample.time;
  series("cores").add(time, kStepUnknown, sample.cores);
  series("memory_bytes").add(time, kStepUnknown, static_cast<double>(sample.memory_bytes));
  view_.received_per_second.reset();
  view_.sent_per_second.reset();
  if (view_.sample.time > 0) {
    const Traffic before = traffic_of(view_.sample);
    const Traffic after = traffic_of(sample);
    const double seconds = time - view_.sample.time;
    view_.received_per_second = rate_of(before.received, after.received, seconds);
    view_.sent_per_second = rate_of(before.sent, after.sent, seconds);
  }
  if (view_.received_per_second && view_.sent_per_second) {
    series("received_per_second").add(time, kStepUnknown, *view_.received_per_second);
    series("sent_per_second").add(time, kStepUnknown, *view_.sent_per_second);
  }
  for (const contract::GpuSample& gpu : sample.gpus) {
    add_gpu(gpu, time);
  }
  tally_.add(sample);
  view_.sample = std::move(sample);
}

NodeView NodeRecord::view() const {
  NodeView view = view_;
  view.hosts = tally_.hosts();
  return view;
}

void NodeRecord::add_gpu(const contract::GpuSample& gpu, double time) {
  const std::string name = fmt::format("gpu/{}/", gpu.index);
  if (gpu.utilisation) {
    series(name + "utilisation").add(time, kStepUnknown, *gpu.utilisation);
  }
  if (gpu.memory_bytes) {
    series(name + "memory_bytes").add(time, kStepUnknown, static_cast<double>(*gpu.memory_bytes));
  }
  if (gpu.power_watts) {
    series(name + "power_watts").add(time, kStepUnknown, *gpu.power_watts);
  }
  if (gpu.energy_joules) {
    series(name + "energy_joules").add(time, kStepUnknown, *gpu.energy_joules);
  }
  if (gpu.temperature) {
    series(name + "temperature").add(time, kStepUnknown, *gpu.temperature);
  }
}

Series& NodeRecord::series(const std::string& name) {
  return table_.of_many(fmt::format("node/{}/{}", node_, name));
}

}  // namespace lockstep::monitor

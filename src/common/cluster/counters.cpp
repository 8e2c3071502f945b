// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/counters.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"
#include "common/os/process_table.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> find_count(const fs::path& file) {
  return find_integer(trim(read_kernel_text(file)));
}

std::vector<fs::path> folders_in(const fs::path& directory) {
  std::vector<fs::path> folders;
  std::error_code fault;  // a missing directory has no folders
  for (fs::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    folders.push_back(entry->path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...": the sum without idle time, I/O wait
// and the time that the hypervisor gave to other machines.
double busy_ticks(std::string_view line) {
  double ticks = 0;
  const std::vector<std::string> words = split(line, ' ');
  for (const size_t i : {1U, 2U, 3U, 6U, 7U}) {
    ticks += i < words.size() ? static_cast<double>(find_integer(words[i]).value_or(0)) : 0;
  }
  return ticks;
}

void add_interfaces(const fs::path& net, std::vector<contract::InterfaceSample>& samples) {
  for (const fs::path& folder : folders_in(net)) {
    const auto received = find_count(folder / "statistics" / "rx_bytes");
    const auto sent = find_count(folder / "statistics" / "tx_bytes");
    if (received && sent && *received + *sent > 0) {
      samples.push_back(
          {.name = folder.filename().string(), .received_bytes = *received, .sent_bytes = *sent});
    }
  }
}

void add_adapters(const fs::path& adapters, std::vector<contract::InterfaceSample>& samples) {
  constexpr int64_t kWordBytes = 4;  // InfiniBand counts words
  for (const fs::path& adapter : folders_in(adapters)) {
    for (const fs::path& port : folders_in(adapter / "ports")) {
      const auto received = find_count(port / "counters" / "port_rcv_data");
      const auto sent = find_count(port / "counters" / "port_xmit_data");
      if (received && sent) {
        samples.push_back({.name = adapter.filename().string() + "/" + port.filename().string(),
                           .received_bytes = *received * kWordBytes,
                           .sent_bytes = *sent * kWordBytes});
      }
    }
  }
}

}  // namespace

// The lines of the processors are the first of /proc/stat. The first line of all, "cpu  ...", is
// the sum over the machine: its number is empty and therefore skipped.
double busy_seconds(std::string_view stat, std::span<const int> processors) {
  double ticks = 0;
  constexpr std::string_view kName = "cpu";
  while (stat.starts_with(kName)) {
    const size_t end = std::min(stat.find('\n'), stat.size());
    const std::string_view line = stat.substr(0, end);
    const auto number = find_integer(line.substr(kName.size(), line.find(' ') - kName.size()));
    if (number && std::find(processors.begin(), processors.end(), *number) != processors.end()) {
      ticks += busy_ticks(line);
    }
    stat.remove_prefix(std::min(end + 1, stat.size()));
  }
  return ticks / os::ticks_per_second();
}

// Both versions have a file cpu.stat, but only that of version 2 contains usage_usec.
// The nearest cgroup with a counter wins: its ancestors include other jobs.
std::optional<double> find_cgroup_cpu_seconds(std::string_view membership, const fs::path& mount) {
  for (const fs::path& folder : cgroup_folders(membership, mount, "cpuacct")) {
    constexpr std::string_view kUsage = "usage_usec ";
    const std::string second = read_kernel_text(folder / "cpu.stat");
    if (const size_t at = second.find(kUsage); at != std::string::npos) {
      const size_t begin = at + kUsage.size();
      const auto used = find_integer(second.substr(begin, second.find('\n', begin) - begin));
      return used ? std::optional(static_cast<double>(*used) * 1e-6) : std::nullopt;
    }
    if (const auto used = find_count(folder / "cpuacct.usage")) {
      return static_cast<double>(*used) * 1e-9;
    }
  }
  return std::nullopt;
}

std::vector<contract::InterfaceSample> read_interfaces(const fs::path& sysfs) {
  std::vector<contract::InterfaceSample> samples;
  add_interfaces(sysfs / "class" / "net", samples);
  add_adapters(sysfs / "class" / "infiniband", samples);
  return samples;
}

}  // namespace lockstep::cluster

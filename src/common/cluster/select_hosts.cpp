// SPDX-License-Identifier: Apache-2.0
//
// --include and --exclude of deepspeed, for example "h0@h1:0,2": '@' separates hosts, ':'
// introduces devices, ',' separates devices. Devices are numbers of GPUs on that host; the workers
// of a host then get exactly these GPUs, so that the number of slots becomes the number of devices.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "common/base/text.h"
#include "common/cluster/host_text.h"
#include "common/cluster/hosts.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

constexpr std::string_view kSelectionHint = "h0@h1:0,2 for all of h0 and devices 0 and 2 of h1";

// The part of --include or --exclude about one host.
struct Selected {
  std::string host;
  std::optional<std::set<int>> devices;  // absent: all
};

std::set<int> read_devices(std::string_view text, std::string_view part, const HostText& source) {
  std::set<int> devices;
  for (const std::string_view word : split_outside_brackets(text, ',')) {
    const auto device = find_integer(word);
    if (!device || *device < 0 || *device >= kMaxSlots) {
      source.refuse(part, "device numbers, separated by commas", kSelectionHint);
    }
    devices.insert(static_cast<int>(*device));
  }
  return devices;
}

std::vector<Selected> read_selection(std::string_view text, const HostText& source) {
  std::vector<Selected> selection;
  std::set<std::string> seen;
  for (const std::string_view part : split_outside_brackets(text, '@')) {
    const HostItem item = read_host_item(part, source, kSelectionHint);
    std::optional<std::set<int>> devices;
    if (item.tail) {
      devices = read_devices(*item.tail, part, source);
    }
    for (const std::string& name : item.names) {
      if (!seen.insert(name).second) {
        source.refuse(name, "each host once", kSelectionHint);
      }
      selection.push_back({name, devices});
    }
  }
  return selection;
}

std::string names_of(const std::vector<Host>& hosts) {
  constexpr size_t kMaximum = 8;
  std::vector<std::string> names;
  for (const Host& host : hosts) {
    if (names.size() == kMaximum) {
      names.push_back(fmt::format("... ({} total)", hosts.size()));
      break;
    }
    names.push_back(host.name);
  }
  return join(names, ", ");
}

// The devices of a host, according to the host list; nothing if the list has no slots for it.
std::optional<std::set<int>> find_devices(const Host& host) {
  std::set<int> devices(host.gpus.begin(), host.gpus.end());
  if (!devices.empty()) {
    return devices;
  }
  if (!host.slots) {
    return std::nullopt;
  }
  for (int device = 0; device < *host.slots; ++device) {
    devices.insert(devices.end(), device);
  }
  return devices;
}

// One of the two flags and its value.
struct Filter {
  std::string_view flag;
  std::string text;
  bool keeps = true;
};

// Excluding some devices requires the list of all of them; including some does not.
void require_known(const Selected& selected, const std::vector<Host>& hosts, const Filter& filter) {
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&selected](const Host& one) {
    return one.name == selected.host;
  });
  const std::string requested = fmt::format("{} {}", filter.flag, quote(filter.text));
  if (host == hosts.end()) {
    throw Error(ExitCode::Usage, fmt::format("unknown host '{}'", selected.host))
        .fact("requested", requested)
        .fact("hosts", names_of(hosts))
        .hint(fmt::format("use {} with names from that list", filter.flag));
  }
  const auto known = find_devices(*host);
  if (!selected.devices) {
    return;
  }
  if (!known && !filter.keeps) {
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot exclude devices of '{}': their number is not known", selected.host))
        .fact("requested", requested)
        .hint(fmt::format("add its slots to the host list: {}:4", selected.host));
  }
  for (const int device : *selected.devices) {
    if (known && !known->contains(device)) {
      throw Error(ExitCode::Usage,
                  fmt::format("unknown device {} on host '{}'", device, selected.host))
          .fact("requested", requested)
          .fact("devices", fmt::format("{}", fmt::join(*known, ",")), "host list")
          .hint(fmt::format("{} {}:{}", filter.flag, selected.host, *known->begin()));
    }
  }
}

// The remaining part of a host; nothing if all of it is excluded. require_known() has made sure
// that find_devices() succeeds if devices are excluded.
std::optional<Host> filter_host(Host host, const Selected* selected, const Filter& filter) {
  if (selected == nullptr) {
    return filter.keeps ? std::nullopt : std::optional(host);
  }
  if (!selected->devices) {
    return filter.keeps ? std::optional(host) : std::nullopt;
  }
  std::set<int> devices = *selected->devices;
  if (!filter.keeps) {
    devices = *find_devices(host);
    for (const int device : *selected->devices) {
      devices.erase(device);
    }
  }
  if (devices.empty()) {
    return std::nullopt;
  }
  host.gpus.assign(devices.begin(), devices.end());
  host.slots = static_cast<int>(devices.size());
  return host;
}

std::vector<Host> filter_hosts(const std::vector<Host>& hosts, const Filter& filter) {
  const std::vector<Selected> selection =
      read_selection(filter.text, HostText(filter.flag, filter.text));
  for (const Selected& selected : selection) {
    require_known(selected, hosts, filter);
  }
  std::vector<Host> left;
  for (const Host& host : hosts) {
    const auto selected =
        std::find_if(selection.begin(), selection.end(), [&host](const Selected& one) {
          return one.host == host.name;
        });
    if (auto kept = filter_host(host, selected == selection.end() ? nullptr : &*selected, filter)) {
      left.push_back(*std::move(kept));
    }
  }
  if (left.empty()) {
    throw Error(ExitCode::Usage, "no host remains")
        .fact("hosts", names_of(hosts))
        .fact("requested", fmt::format("{} {}", filter.flag, quote(filter.text)))
        .hint("keep at least one device of one host");
  }
  return left;
}

}  // namespace

std::vector<Host> select_hosts(std::vector<Host> hosts,
                               const std::optional<std::string>& include,
                               const std::optional<std::string>& exclude) {
  // The default in deepspeed is an empty string.
  const std::string keep = include.value_or("");
  const std::string drop = exclude.value_or("");
  if (!keep.empty() && !drop.empty()) {
    throw Error(ExitCode::Usage, "cannot use --include and --exclude together")
        .fact("requested", fmt::format("--include {}", quote(keep)))
        .fact("requested", fmt::format("--exclude {}", quote(drop)))
        .hint("use --include only, with all devices to use");
  }
  if (!keep.empty()) {
    return filter_hosts(hosts, {"--include", keep, true});
  }
  if (!drop.empty()) {
    return filter_hosts(hosts, {"--exclude", drop, false});
  }
  return hosts;
}

}  // namespace lockstep::cluster

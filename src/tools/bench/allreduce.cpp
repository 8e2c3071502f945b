// SPDX-License-Identifier: Apache-2.0
//
// Two roles of one program:
//
//   lockstep-bench allreduce --workers N        starts "lockstep run -- lockstep-bench allreduce",
//                                               reads the JSON of rank 0, prints the table
//   lockstep-bench allreduce (as a worker)      measures, rank 0 writes the results
//
// The peer in Python runs under the same launcher with the same sizes, after lockstep and never at
// the same time.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include <nlohmann/json.hpp>

#include "common/base/median.h"
#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/host.h"
#include "lockstep/error.h"
#include "tools/bench/allreduce_calls.h"
#include "tools/bench/commands.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

// Seconds per call, by message size in bytes.
using Times = std::map<int64_t, double>;

struct Figures {
  Times times;
  std::string kind;  // the transport
  int workers = 1;
};

// Floats, four bytes: a KiB is 256 of them. The first four calls are a warm-up and estimate the
// duration, from which all workers derive the same number of timed calls (calls_for() is a
// collective). The sums are checked before and after: a fast but wrong all-reduce must not win.
double time_size(Session& session, int64_t kilobytes, double seconds) {
  Communicator& comm = session.communicator();
  torch::Tensor tensor = torch::zeros({kilobytes * 256}, torch::device(session.device()));
  const auto call = [&] {
    return seconds_of(session.device(), [&] { comm.all_reduce(tensor); });
  };
  require_right_sums(comm, tensor);
  std::vector<double> first(4);
  std::generate(first.begin(), first.end(), call);
  std::vector<double> times(static_cast<size_t>(calls_for(comm, median(first), seconds)));
  std::generate(times.begin(), times.end(), call);
  require_right_sums(comm, tensor);
  return median(times);
}

Figures measure(Session& session, const AllreduceBenchOptions& options) {
  Figures found{.times = {},
                .kind = std::string(session.communicator().kind()),
                .workers = session.world_size()};
  for (const int64_t kilobytes : options.kilobytes) {
    found.times[kilobytes * 1024] = time_size(session, kilobytes, options.seconds);
  }
  return found;
}

nlohmann::json to_json(const Figures& figures) {
  nlohmann::json json = {
      {"kind", figures.kind}, {"workers", figures.workers}, {"sizes", nlohmann::json::array()}};
  for (const auto& [bytes, seconds] : figures.times) {
    json["sizes"].push_back({{"bytes", bytes}, {"seconds", seconds}});
  }
  return json;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  nlohmann::json json =
      nlohmann::json::parse(os::read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(ExitCode::Bug, fmt::format("cannot read the results in {}", path.string()));
  }
  return json;
}

// Missing fields get neutral values, because the peer writes the same format with fewer fields.
Figures from_json(const nlohmann::json& json) {
  Figures figures{.times = {}, .kind = json.value("kind", ""), .workers = json.value("workers", 1)};
  for (const nlohmann::json& size : json.value("sizes", nlohmann::json::array())) {
    figures.times[size.value("bytes", int64_t{0})] = size.value("seconds", 0.0);
  }
  return figures;
}

// `theirs` can be empty. Bus bandwidth follows nccl-tests: each worker must send and receive at
// least 2 (n - 1) / n times the message size.
std::string format_figures(const Figures& ours, const Figures& theirs) {
  const auto bus = [&](double bytes, double seconds) {
    const auto count = static_cast<double>(ours.workers);
    return ours.workers == 1
               ? std::string("-")
               : fmt::format("{:.2f}", bytes / seconds / 1e9 * 2 * (count - 1) / count);
  };
  std::vector<std::vector<std::string>> rows = {{"size", "us", "GB/s", "bus GB/s"}};
  if (!theirs.times.empty()) {
    rows.front().insert(rows.front().end(),
                        {theirs.kind + ", us", theirs.kind + ", bus GB/s", "peer / lockstep"});
  }
  for (const auto& [size, seconds] : ours.times) {
    const auto bytes = static_cast<double>(size);
    rows.push_back({format_bytes(static_cast<uint64_t>(size)),
                    fmt::format("{:.1f}", seconds * 1e6),
                    fmt::format("{:.2f}", bytes / seconds / 1e9),
                    bus(bytes, seconds)});
    const auto other = theirs.times.find(size);
    if (other != theirs.times.end()) {
      rows.back().insert(rows.back().end(),
                         {fmt::format("{:.1f}", other->second * 1e6),
                          bus(bytes, other->second),
                          fmt::format("{:.2f}", other->second / seconds)});
    } else if (!theirs.times.empty()) {
      rows.back().insert(rows.back().end(), {"-", "-", "-"});
    }
  }
  return format_table(rows);
}

void report(const AllreduceBenchOptions& options, const Figures& ours, const Figures& theirs) {
  fmt::print("all-reduce of floats, {}, {}\n\n{}",
             plural(ours.workers, "worker"),
             ours.kind,
             format_figures(ours, theirs));
  if (!options.common.json.empty()) {
    nlohmann::json json = {{"what", "allreduce"}, {"lockstep", to_json(ours)}};
    if (!theirs.times.empty()) {
      json["peer"] = to_json(theirs);
    }
    os::write_file(options.common.json, json.dump(1) + "\n");
  }
}

// Measures in this process, which is one of the workers or the only one.
int measure_as_worker(const AllreduceBenchOptions& options) {
  std::vector<std::string> flags = {
      "--device", options.common.device, "--transport", options.transport};
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  return in_session(flags, [&](Session& session) {
    const Figures ours = measure(session, options);
    if (session.rank() == 0) {
      report(options, ours, {});
    }
  });
}

// The launch command. `lockstep` is in the directory of this program. `file` is the output file;
// the run directory is next to it. The run directory is in the scratch directory, so that a
// benchmark leaves nothing behind.
std::vector<std::string> launch(const AllreduceBenchOptions& options,
                                const std::filesystem::path& file) {
  const std::filesystem::path self = os::own_executable();
  return {(self.parent_path() / "lockstep").string(),
          "run",
          "--nproc-per-node",
          std::to_string(options.workers),
          "--run-dir",
          file.string() + ".run",
          "--"};
}

std::string sizes_of(const AllreduceBenchOptions& options) {
  std::vector<std::string> sizes;
  for (const int64_t kilobytes : options.kilobytes) {
    sizes.push_back(std::to_string(kilobytes));
  }
  return join(sizes, ",");
}

Figures run_workers(const AllreduceBenchOptions& options, const std::filesystem::path& file) {
  std::vector<std::string> command = launch(options, file);
  command.insert(command.end(),
                 {os::own_executable(),
                  "allreduce",
                  "--sizes",
                  sizes_of(options),
                  "--seconds",
                  fmt::format("{}", options.seconds),
                  "--device",
                  options.common.device,
                  "--transport",
                  options.transport,
                  "--json",
                  file.string()});
  for (const std::string& flag : options.common.flags) {
    command.push_back("--flag=" + flag);
  }
  run_to_end(command);
  return from_json(read_json(file).at("lockstep"));
}

Figures run_peers(const AllreduceBenchOptions& options,
                  const std::filesystem::path& script,
                  const std::filesystem::path& file) {
  std::vector<std::string> command = launch(options, file);
  command.insert(command.end(),
                 {find_python(options.common.python),
                  script.string(),
                  "--sizes",
                  sizes_of(options),
                  "--seconds",
                  fmt::format("{}", options.seconds),
                  "--device",
                  options.common.device,
                  "--json",
                  file.string()});
  run_to_end(command);
  return from_json(read_json(file));
}

}  // namespace

// The peer is looked for before the measurement: a missing Python must not be noticed after
// minutes.
int measure_allreduce(const AllreduceBenchOptions& options) {
  if (options.workers == 0) {
    if (options.common.peer) {
      throw Error(ExitCode::Usage, "cannot run the Python peer from a worker")
          .fact("found", "--peer without --workers", "command line")
          .hint("lockstep-bench allreduce --workers 2 --peer");
    }
    return measure_as_worker(options);
  }
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("allreduce", options.common.python);
  }
  const os::TemporaryDirectory scratch("lockstep-bench-allreduce");
  const Figures ours = run_workers(options, scratch.path() / "lockstep.json");
  Figures theirs;
  if (options.common.peer) {
    theirs = run_peers(options, script, scratch.path() / "peer.json");
  }
  report(options, ours, theirs);
  return 0;
}

}  // namespace lockstep::bench

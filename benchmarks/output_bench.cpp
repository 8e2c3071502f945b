// SPDX-License-Identifier: Apache-2.0
// Measures how fast the agent handles the output of workers: reading, logging and console output.
//
//   output_bench [GIGABYTES [WORKERS [DIRECTORY]]]
//
// The workers are instances of this program that write lines as fast as possible. DIRECTORY is the
// place for logs and the console file, for example /dev/shm or a disk. Prints one line per case:
//
//   GB/s       bytes written by all workers per second of wall time
//   per core   bytes written by all workers per second of CPU time of the agent
//   MiB        peak resident memory of the agent so far
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "common/os/process.h"
#include "common/os/signals.h"
#include "launcher/supervisor/console/display.h"
#include "launcher/supervisor/node/worker.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kGiga = 1e9;

// Acts as a worker: writes lines of `line` characters, `chunk` bytes per call.
int write_lines(size_t bytes, size_t line, size_t chunk) {
  std::string text;
  while (text.size() < chunk) {
    text += std::string(line - 1, static_cast<char>('a' + text.size() % 26)) + '\n';
  }
  for (size_t written = 0; written < bytes;) {
    const ssize_t count = ::write(1, text.data(), text.size());
    if (count <= 0) {
      return 1;
    }
    written += static_cast<size_t>(count);
  }
  return 0;
}

enum class Console { NoReader, File, FastPipe, SlowPipe };

struct Case {
  Console console = Console::NoReader;
  size_t line = 100;
  bool has_log = true;
};

std::string name_of(Console console) {
  switch (console) {
    case Console::NoReader:
      return "/dev/null";
    case Console::File:
      return "a file";
    case Console::FastPipe:
      return "| cat >/dev/null";
    case Console::SlowPipe:
      return "| 1 MB/s";
  }
  return "";
}

double own_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long resident_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

struct Bench {
  fs::path directory;
  size_t bytes_each = 0;
  int workers = 2;
};

os::Child start(const std::vector<std::string>& arguments, int in, int out) {
  return os::start({.executable = arguments.front(),
                    .arguments = arguments,
                    .environment = os::environment(),
                    .stdin_fd = in,
                    .stdout_fd = out,
                    .stderr_fd = 2,
                    .inherited = {},
                    .directory = "",
                    .has_own_group = true});
}

// The file descriptor of the console, and the process that reads it.
struct Reader {
  os::Fd fd;
  std::optional<os::Child> process;
};

Reader make_reader(Console console, const fs::path& file) {
  if (console == Console::NoReader) {
    return {.fd = os::open_for_append("/dev/null"), .process = std::nullopt};
  }
  if (console == Console::File) {
    return {.fd = os::open_for_append(file), .process = std::nullopt};
  }
  os::Pipe pipe = os::make_pipe();
  const std::string script = console == Console::FastPipe
                                 ? "exec cat > /dev/null"
                                 : "while head -c 100000 > /dev/null; do sleep 0.1; done";
  os::Child process = start({"/bin/sh", "-c", script}, pipe.out.number(), 2);
  return {.fd = std::move(pipe.in), .process = std::move(process)};
}

void listen(std::vector<supervisor::Worker>& workers, supervisor::Display& display) {
  constexpr std::array kStreams = {supervisor::Stream::Out, supervisor::Stream::Err};
  for (;;) {
    std::vector<os::Watch> watches;
    bool is_open = false;
    for (const supervisor::Worker& worker : workers) {
      for (const supervisor::Stream stream : kStreams) {
        watches.push_back({.fd = worker.stream_fd(stream)});
        is_open = is_open || worker.stream_fd(stream) >= 0;
      }
    }
    if (!is_open) {
      return;
    }
    for (const int fd : display.waiting_fds()) {
      watches.push_back({.fd = fd, .for_write = true});
    }
    os::wait_for(watches, display.time_to_next());
    for (size_t i = 0; i < 2 * workers.size(); ++i) {
      if (watches[i].is_ready) {
        workers[i / 2].read(kStreams[i % 2], display);
      }
    }
    display.write_some();
  }
}

void measure(const Bench& bench, const Case& one) {
  fs::remove_all(bench.directory / "logs");
  Reader reader = make_reader(one.console, bench.directory / "logs.console");
  supervisor::Display display(
      {.fd = reader.fd.number(), .kind = supervisor::OutputBuffer::kind_of(reader.fd.number())},
      {.fd = 2, .kind = supervisor::OutputBuffer::Kind::NoReader},
      {.world_size = bench.workers});
  std::vector<supervisor::Worker> workers;
  for (int rank = 0; rank < bench.workers; ++rank) {
    contract::WorkerSpec spec;
    spec.rank = rank;
    spec.world_size = bench.workers;
    spec.local_world_size = bench.workers;
    spec.run_directory = one.has_log ? (bench.directory / "logs").string() : "";
    workers.emplace_back(spec, supervisor::log_files({}, spec), [](const std::string& sentence) {
      fmt::print(stderr, "{}\n", sentence);
    });
  }
  const double before = own_seconds();
  const auto begin = Clock::now();
  for (supervisor::Worker& worker : workers) {
    worker.adopt(start({"/proc/self/exe",
                        "--write",
                        std::to_string(bench.bytes_each),
                        std::to_string(one.line),
                        "65536"},
                       -1,
                       worker.stdout_fd()));
    worker.close_inner_ends();
  }
  listen(workers, display);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double own = own_seconds() - before;
  const double giga = static_cast<double>(bench.bytes_each) * bench.workers / kGiga;
  fmt::print("{:<18} {:>6}  {:<4} {:>6.2f} {:>9.2f} {:>6}\n",
             name_of(one.console),
             one.line,
             one.has_log ? "yes" : "no",
             giga / seconds,
             giga / own,
             resident_mib());
  std::fflush(stdout);
  if (reader.process) {
    reader.process->signal_group(SIGKILL);
  }
  fs::remove_all(bench.directory / "logs");
  fs::remove(bench.directory / "logs.console");
}

int run(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--write") == 0) {
    return write_lines(std::stoull(argv[2]), std::stoull(argv[3]), std::stoull(argv[4]));
  }
  os::ignore_signal(SIGPIPE);
  const double giga = argc > 1 ? std::atof(argv[1]) : 2.0;
  Bench bench{.directory = argc > 3 ? argv[3] : "/dev/shm",
              .bytes_each = 0,
              .workers = argc > 2 ? std::atoi(argv[2]) : 2};
  bench.bytes_each = static_cast<size_t>(giga * kGiga / bench.workers);
  bench.directory /= fmt::format("output-bench-{}", ::getpid());
  fs::create_directories(bench.directory);
  fmt::print("{} GB from {} workers, files in {}\n", giga, bench.workers, bench.directory.string());
  fmt::print("{:<18} {:>6}  {:<4} {:>6} {:>9} {:>6}\n",
             "console",
             "line",
             "log",
             "GB/s",
             "per core",
             "MiB");
  for (const bool has_log : {false, true}) {
    for (const Console console :
         {Console::NoReader, Console::File, Console::FastPipe, Console::SlowPipe}) {
      for (const size_t line : {size_t{10}, size_t{100}, size_t{1000}}) {
        measure(bench, {.console = console, .line = line, .has_log = has_log});
      }
    }
  }
  fs::remove_all(bench.directory);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::run(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include "common/os/process_table.h"

#include <array>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>

#include "common/os/fd.h"

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;

// The kernel generates such a file for each read, so one read is consistent. Empty if it is gone.
std::string read_once(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer{};
  const ssize_t count = file.is_open() ? ::read(file.number(), buffer.data(), buffer.size()) : -1;
  return count > 0 ? std::string(buffer.data(), static_cast<size_t>(count)) : std::string();
}

template <typename Number>
Number to_number(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The number after "NAME:" and spaces.
std::optional<int64_t> find_number(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t digits = text.find_first_of("0123456789", at + name.size());
  return digits == std::string_view::npos ? std::nullopt
                                          : std::optional(to_number<int64_t>(text.substr(digits)));
}

}  // namespace

double ticks_per_second() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<int> list_processes(const fs::path& proc) {
  std::vector<int> numbers;
  const auto close = [](DIR* directory) {
    ::closedir(directory);
  };
  const std::unique_ptr<DIR, decltype(close)> directory(::opendir(proc.c_str()), close);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const std::string_view name = std::begin(entry->d_name);
    if (name.find_first_not_of("0123456789") == std::string_view::npos) {
      numbers.push_back(to_number<int>(name));
    }
  }
  return numbers;
}

std::optional<ProcessReading> find_process(int pid, const fs::path& proc) {
  const std::string text = read_once(proc / std::to_string(pid) / "stat");
  // "PID (NAME) STATE PARENT GROUP ...": the name can contain spaces and parentheses.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  // Index 0 is STATE, field 3 of proc(5): field N of the manual is words[N - 3]. PARENT is 4, GROUP
  // 5, the four times 14 to 17, the start time 22 and the resident pages 24.
  constexpr size_t kLast = 22;  // last field used, counted from STATE
  std::array<std::string_view, kLast> words;
  std::string_view rest = std::string_view(text).substr(name_end + 1);
  for (std::string_view& word : words) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
  }
  double ticks = 0;  // utime, stime, cutime, cstime
  for (const size_t i : {11U, 12U, 13U, 14U}) {
    ticks += static_cast<double>(to_number<int64_t>(words.at(i)));
  }
  return ProcessReading{
      .pid = pid,
      .parent = to_number<int>(words[1]),
      .group = to_number<int>(words[2]),
      .has_ended = words[0] == "Z" || words[0] == "X",
      .began = to_number<uint64_t>(words[19]),
      .cpu_seconds = ticks / ticks_per_second(),
      .resident_bytes = to_number<int64_t>(words[21]) * int64_t{::sysconf(_SC_PAGESIZE)}};
}

std::optional<DiskBytes> find_disk_bytes(int pid, const fs::path& proc) {
  const std::string text = read_once(proc / std::to_string(pid) / "io");
  const auto read = find_number(text, "\nread_bytes:");
  const auto written = find_number(text, "\nwrite_bytes:");
  return read && written ? std::optional(DiskBytes{.read = *read, .written = *written})
                         : std::nullopt;
}

std::optional<int64_t> find_proportional_bytes(int pid, const fs::path& proc) {
  const std::string text = read_once(proc / std::to_string(pid) / "smaps_rollup");
  const auto kibibytes = find_number(text, "\nPss:");
  return kibibytes ? std::optional(*kibibytes * 1024) : std::nullopt;
}

}  // namespace lockstep::os

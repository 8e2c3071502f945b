// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/tensorboard.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "common/os/host.h"
#include "common/os/peer_watch.h"
#include "launcher/monitor/crc32c.h"
#include "launcher/monitor/tensorboard_messages.h"
#include "lockstep/error.h"

// A file for TensorBoard is append-only. What is computed again after a restart cannot be removed
// from it; a SessionLog::START message with the step makes the reader discard it:
//
//   step 1 2 3 4 5 | START step 3 | step 3 4 5 6
//
// TensorBoard reads the files of a directory in the order of their names, which begin with the
// time, and moves to the next file when it reaches the end of one. A new file must therefore have a
// larger name than the earlier ones, and the earlier ones must not grow any more: the directory
// lock ensures that there is one writer.
namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "events.out.tfevents.";
constexpr std::string_view kEnd = ".lockstep";
constexpr std::string_view kStep = "step";
constexpr std::string_view kOutputStep = "output/step";  // of programs without step events
constexpr size_t kBufferBytes = size_t{1} << 20;

// Appends a number in little-endian order.
template <typename Number>
void append_number(std::string& bytes, Number number) {
  for (size_t byte = 0; byte < sizeof(number); ++byte) {
    bytes += static_cast<char>((number >> (8 * byte)) & 0xffU);
  }
}

// The CRC of a string that contains CRCs is problematic, so TensorFlow rotates the CRC and adds a
// constant before storing it (tensorflow/core/lib/hash/crc32c.h).
uint32_t masked_checksum(std::string_view bytes) {
  constexpr uint32_t kDelta = 0xa282ead8U;
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + kDelta;
}

os::DirectoryLock locked(const fs::path& directory) {
  os::make_directories(directory);
  auto lock = os::DirectoryLock::find(directory);
  if (!lock) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot write to {}: another lockstep process is writing there",
                            directory.string()))
        .hint("choose another directory: --output runs/tensorboard-2");
  }
  return std::move(*lock);
}

std::vector<fs::path> find_earlier(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code fault;
  for (fs::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kBegin) && name.ends_with(kEnd)) {
      files.push_back(entry->path());
    }
  }
  return files;
}

// TIME has ten digits with leading zeros, so that the order of names is the order of times.
fs::path new_name(const fs::path& directory, double now) {
  return directory / fmt::format("{}{:010}.{}.{}{}",
                                 kBegin,
                                 static_cast<int64_t>(now),
                                 os::host_name(),
                                 os::process_id(),
                                 kEnd);
}

}  // namespace

std::string record_of(std::string_view message) {
  std::string record;
  constexpr size_t kFrameBytes = 16;
  record.reserve(message.size() + kFrameBytes);
  append_number(record, static_cast<uint64_t>(message.size()));
  append_number(record, masked_checksum(record));
  record += message;
  append_number(record, masked_checksum(message));
  return record;
}

// A mark if `mark` is set, else a value.
struct TensorboardFile::Entry {
  double time = 0;
  const std::string* tag = nullptr;
  const Point* point = nullptr;
  const Mark* mark = nullptr;
};

// The order of the members matters: the lock is taken before the directory is listed and the new
// file is created, so `earlier_` has neither this file nor the file of a living writer.
TensorboardFile::TensorboardFile(const fs::path& directory, double now)
    : lock_(locked(directory)), earlier_(find_earlier(directory)), file_(new_name(directory, now)) {
  put(version_message(now));
  // A TensorBoard that has read the earlier files must not show their values twice.
  if (!earlier_.empty()) {
    put(restart_message({.time = now}));
  }
  flush();
}

void TensorboardFile::add(const News& news) {
  size_t count = news.marks.size();
  for (const auto& [tag, points] : news.values) {
    count += points.size();
  }
  std::vector<Entry> entries;
  entries.reserve(count);
  const auto take = [&entries](const auto& series) {
    for (const Point& point : series.second) {
      entries.push_back({.time = point.time, .tag = &series.first, .point = &point});
    }
  };
  // The sort below is stable. Steps are added first, so that at equal times a step that goes back
  // is written, with its restart message, before the other values of that step.
  for (const bool is_step : {true, false}) {
    for (const auto& series : news.values) {
      if ((series.first == kStep || series.first == kOutputStep) == is_step) {
        take(series);
      }
    }
  }
  for (const Mark& mark : news.marks) {
    entries.push_back({.time = mark.time, .mark = &mark});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& one, const Entry& other) {
    return one.time < other.time;
  });
  for (const Entry& entry : entries) {
    if (entry.mark != nullptr) {
      write_mark(*entry.mark);
    } else {
      write_scalar(entry);
    }
  }
  flush();
}

// step and output/step define the current step of rank 0. Once a program has written step events,
// the steps in its output are ordinary values: two sources that disagree would look like restarts.
void TensorboardFile::write_scalar(const Entry& entry) {
  int64_t step = entry.point->step;
  if (step == kStepUnknown) {
    step = counts_[*entry.tag]++;
  }
  has_steps_ = has_steps_ || *entry.tag == kStep;
  if (*entry.tag == kStep || (*entry.tag == kOutputStep && !has_steps_)) {
    if (step < step_) {
      put(restart_message({.time = entry.time, .step = step}));
    }
    step_ = step;
    for (const Mark& restart : std::exchange(restarts_, {})) {
      write_text(restart, step);
    }
  }
  put(scalar_message(*entry.tag, {.time = entry.time, .step = step}, entry.point->mean));
}

// Evaluations are written as scalars only.
void TensorboardFile::write_mark(const Mark& mark) {
  if (mark.kind == Mark::Kind::Restart) {
    restarts_.push_back(mark);
  } else if (mark.kind != Mark::Kind::Evaluation) {
    write_text(mark, mark.step < 0 ? step_ : mark.step);
  }
}

void TensorboardFile::write_text(const Mark& mark, int64_t step) {
  const std::string kind = name_of(mark.kind);
  put(text_message(
      "marks/" + kind, {.time = mark.time, .step = step}, mark.text.empty() ? kind : mark.text));
}

void TensorboardFile::finish() {
  for (const Mark& restart : std::exchange(restarts_, {})) {
    write_text(restart, step_);
  }
  flush();
}

void TensorboardFile::remove_earlier() {
  for (const fs::path& file : std::exchange(earlier_, {})) {
    os::remove_tree(file);
  }
}

void TensorboardFile::put(std::string_view message) {
  buffer_ += record_of(message);
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void TensorboardFile::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

}  // namespace lockstep::monitor

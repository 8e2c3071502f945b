// SPDX-License-Identifier: Apache-2.0
#include "agent/worker.h"

#include <csignal>
#include <utility>

#include "base/log.h"

namespace lockstep::agent {
namespace {

constexpr int kPipeBytes = 1 << 18;
constexpr size_t kChunkBytes = size_t{1} << 17;

Display::Stream shown_on(size_t stream) {
  return stream == 0 ? Display::Stream::Out : Display::Stream::Err;
}

}  // namespace

Worker::Worker(contract::WorkerPlace place, const std::filesystem::path& log)
    : place_(std::move(place)), log_path_(log), log_(os::open_for_append(log)) {
  for (Stream& stream : streams_) {
    os::Pipe pipe = os::make_pipe();
    os::enlarge_pipe(pipe.out.number(), kPipeBytes);
    os::set_nonblocking(pipe.out.number());
    stream.outer = std::move(pipe.out);
    stream.inner = std::move(pipe.in);
  }
}

void Worker::close_inner_ends() {
  for (Stream& stream : streams_) {
    stream.inner.close();
  }
}

void Worker::adopt(os::Child process) {
  process_.emplace(std::move(process));
}

void Worker::send(int signal) {
  if (is_running()) {
    process_->signal_group(signal);
    sent_ = sent_ == SIGKILL ? SIGKILL : signal;
  }
}

void Worker::keep(std::string_view lines) {
  if (log_.is_open() && !os::write_all(log_.number(), lines)) {
    log::warn(
        "agent: cannot write {}; the log of rank {} ends here", log_path_.string(), place_.rank);
    log_.close();
  }
}

void Worker::read(size_t stream, std::string_view prefix, Display& display) {
  Stream& from = streams_.at(stream);
  std::string chunk;
  const os::ReadResult result = os::read_some(from.outer.number(), chunk, kChunkBytes);
  LineSplitter::Output output = from.splitter.feed(chunk);
  if (result == os::ReadResult::End) {
    output.lines += from.splitter.finish();
    from.outer.close();
  }
  if (!output.lines.empty()) {
    keep(output.lines);
    display.add_lines(shown_on(stream), prefix_lines(prefix, output.lines));
  }
  if (output.status) {
    display.show_status(std::string(prefix) + *output.status);
  }
}

void Worker::finish_streams(std::string_view prefix, Display& display) {
  for (size_t stream = 0; stream < streams_.size(); ++stream) {
    const std::string lines = streams_.at(stream).splitter.finish();
    keep(lines);
    display.add_lines(shown_on(stream), prefix_lines(prefix, lines));
    streams_.at(stream).outer.close();
  }
}

std::optional<os::ExitStatus> Worker::find_new_exit() {
  if (!is_running()) {
    return std::nullopt;
  }
  const auto status = process_->find_exit();
  has_ended_ = status.has_value();
  return status;
}

}  // namespace lockstep::agent

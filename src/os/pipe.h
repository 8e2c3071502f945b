// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"

// Bytes through descriptors: pipes, waiting for many at once, writing without getting stuck.
namespace lockstep::os {

// What goes into `in` comes out of `out`. Neither is inherited by programs started through os
// unless a Command names it.
struct Pipe {
  Fd out;
  Fd in;
};

Pipe make_pipe();

// Asks the kernel for a pipe of at least this size; harmless if it refuses.
void enlarge_pipe(int fd, int bytes);

void set_nonblocking(int fd);

enum class ReadResult { Some, Nothing, End };

// Appends what is there now to `buffer`, at most `most` bytes. Nothing: try later (a descriptor
// that does not block); End: the other side has closed, or an error that is as good as that.
ReadResult read_some(int fd, std::string& buffer, size_t most);

// The same into memory of the caller's; tells how many bytes came in `count`.
ReadResult read_some(int fd, std::span<char> buffer, size_t& count);

// Writes what the descriptor takes now; the count, or nothing when its reader has gone for good.
// Never blocks where `is_writable` was told by wait_for, provided `text` is at most kAtomicBytes.
std::optional<size_t> write_some(int fd, std::string_view text);
inline constexpr size_t kAtomicBytes = 4096;

// Writes all, waiting as long as it takes; false when the reader has gone.
bool write_all(int fd, std::string_view text);

// Whether somebody may still read what is written to a pipe or socket. Always true of a file.
bool has_reader(int fd);

// One descriptor to wait for, and what came of it.
struct Watch {
  int fd = -1;
  bool for_write = false;
  bool is_ready = false;
};

// Waits until one of them is ready (an end or an error counts), or `timeout` has passed; no
// timeout means for ever.
void wait_for(std::span<Watch> watches, std::optional<std::chrono::milliseconds> timeout);

// Opens, or makes, a file to which every write is added at its end. Throws an Error (74).
Fd open_for_append(const std::filesystem::path& path);

// A file that never makes a writer wait for a reader.
bool is_regular_file(int fd);

// /dev/null: what is written there is gone.
bool is_null_device(int fd);

// Whether both lead to the same file, pipe or terminal.
bool is_same_file(int one, int other);

// The same pipe or terminal as `fd`, opened once more for writing so that it never blocks: the flag
// of `fd` itself is shared with other programs. Closed when there is no such thing (a socket,
// another user's terminal).
Fd find_nonblocking_twin(int fd);

// An anonymous file in memory that holds `text`, to be read from its beginning.
Fd make_memory_file(std::string_view text);

}  // namespace lockstep::os

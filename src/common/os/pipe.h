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

#include "common/os/fd.h"

// Bytes through descriptors: pipes, waiting for several descriptors, writing without blocking.
namespace lockstep::os {

// Bytes written to `in` can be read from `out`. Neither is inherited by programs started through os
// unless a Command lists it.
struct Pipe {
  Fd out;
  Fd in;
};

Pipe make_pipe();

// Requests a minimum size of a pipe from the kernel; a refusal is harmless.
void enlarge_pipe(int fd, int bytes);

void set_nonblocking(int fd);

enum class ReadResult { Some, Nothing, End };

// Appends the available bytes to `buffer`, at most `maximum`. Nothing: try later (non-blocking
// descriptor). End: the other side has closed, or an equivalent error.
ReadResult read_some(int fd, std::string& buffer, size_t maximum);

// As above, into memory of the caller; `count` receives the number of bytes.
ReadResult read_some(int fd, std::span<char> buffer, size_t& count);

// Writes as much as the descriptor accepts now. Returns the count, or nothing if the reader has
// closed. Never blocks if wait_for reported `is_writable` and `text` has at most kAtomicBytes.
std::optional<size_t> write_some(int fd, std::string_view text);
inline constexpr size_t kAtomicBytes = 4096;

// Writes everything and blocks if necessary; false if the reader has closed.
bool write_all(int fd, std::string_view text);

// Whether a pipe or socket still has a reader. Always true for a file.
bool has_reader(int fd);

// A descriptor to wait for, and the result.
struct Watch {
  int fd = -1;
  bool for_write = false;
  bool is_ready = false;
};

// Waits until one of them is ready (end of file and errors count) or `timeout` has passed. Without
// a timeout, waits forever.
void wait_for(std::span<Watch> watches, std::optional<std::chrono::milliseconds> timeout);

// Opens or creates a file in append mode. Throws an Error (74).
Fd open_for_append(const std::filesystem::path& path);

// A file whose writer never waits for a reader.
bool is_regular_file(int fd);

// /dev/null: discards everything written to it.
bool is_null_device(int fd);

// Whether both refer to the same file, pipe or terminal.
bool is_same_file(int one, int other);

// Opens the pipe or terminal of `fd` once more for non-blocking writes: the flag of `fd` itself is
// shared with other programs. Returns a closed Fd if that is not possible (a socket, the terminal
// of another user).
Fd open_nonblocking_twin(int fd);

// An anonymous file in memory with the contents `text`, positioned at its beginning.
Fd make_memory_file(std::string_view text);

}  // namespace lockstep::os

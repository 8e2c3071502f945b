// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace lockstep::os {

// An owned file descriptor; the destructor closes it.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { close(); }

  void close() noexcept;

  // Releases the descriptor without closing it.
  int release() noexcept { return std::exchange(number_, -1); }

  // -1 if there is none.
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Makes `to` a duplicate of `from` and closes `from`. Throws an Error if `from` is not open.
void redirect(int from, int to);

// Discards everything written to a descriptor of this process during its lifetime. The caller must
// flush the buffers of the C library before and after.
class Silence {
 public:
  explicit Silence(int number);
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int number_;
  Fd kept_;
};

}  // namespace lockstep::os

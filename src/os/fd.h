// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace lockstep::os {

// An owned file descriptor: closed when it goes out of scope.
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

  // Gives the descriptor up without closing it.
  int release() noexcept { return std::exchange(number_, -1); }

  // -1 when there is none.
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Makes `to` mean what `from` means, and closes `from`. Throws an Error when `from` is not open.
void redirect(int from, int to);

// While it lives, what is written to a descriptor of this process goes nowhere. What the C library
// still holds for it is the caller's to flush, before and after.
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

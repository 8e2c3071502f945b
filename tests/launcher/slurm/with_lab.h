// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "launcher/slurm/lab.h"

namespace lockstep::testing {

// One lab for the tests of a suite, started with Kind::options(). Each test uses a separate
// directory.
template <typename Kind>
class WithLab : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { lab_ = std::make_unique<Lab>(Kind::options()); }
  static void TearDownTestSuite() { lab_.reset(); }

  void SetUp() override {
    if (!lab().reason_against().empty()) {
      GTEST_SKIP() << lab().reason_against();
    }
    lab().work_in(::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  static Lab& lab() { return *lab_; }

 private:
  static inline std::unique_ptr<Lab> lab_;
};

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#include "common/os/thread_name.h"

#include <pthread.h>

namespace lockstep::os {

void name_this_thread(const std::string& name) {
  constexpr size_t kMostLetters = 15;
  pthread_setname_np(pthread_self(), name.substr(0, kMostLetters).c_str());
}

}  // namespace lockstep::os

// SPDX-License-Identifier: Apache-2.0
#include "common/os/thread_name.h"

#include <pthread.h>

namespace lockstep::os {

void name_this_thread(const std::string& name) {
  // TASK_COMM_LEN of the kernel, 16 bytes with the final NUL. A longer name is an error, not cut.
  constexpr size_t kMaxLength = 15;
  pthread_setname_np(pthread_self(), name.substr(0, kMaxLength).c_str());
}

}  // namespace lockstep::os

// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the made-up libnvidia-ml.so of the tests tells; it is found there as `fake_nvml_state`.
struct FakeNvmlState {
  int init_result = 0;
  unsigned count = 1;
  int lost_device = -1;           // its handle cannot be had
  bool has_pcie_counters = true;  // as younger drivers
  bool has_nvlink = true;
  bool has_reserved_memory = true;  // told apart, as by younger drivers
  bool is_narrow = false;           // counters of 32 bits
  bool is_silent = false;           // tells nothing that may be missing
  unsigned long long sent = 1000;
  unsigned long long received = 2000;
  unsigned long long xid = 0;  // 0: none waits
  int xid_device = 0;
  int inits = 0;
  int shutdowns = 0;
  int open_sets = 0;
};

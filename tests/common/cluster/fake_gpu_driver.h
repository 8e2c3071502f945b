// SPDX-License-Identifier: Apache-2.0
#pragma once

// The values that the fake libnvidia-ml.so reports; its symbol is `fake_nvml_state`.
struct FakeNvmlState {
  int init_result = 0;
  unsigned count = 1;
  int lost_device = -1;           // its handle is unavailable
  bool has_pcie_counters = true;  // as in newer drivers
  bool has_nvlink = true;
  bool has_reserved_memory = true;  // reported separately, as by newer drivers
  bool is_narrow = false;           // 32-bit counters
  bool is_silent = false;           // reports no optional value
  unsigned long long sent = 1000;
  unsigned long long received = 2000;
  unsigned long long xid = 0;  // 0: none pending
  int xid_device = 0;
  int inits = 0;
  int shutdowns = 0;
  int open_sets = 0;
};

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
  int mig_device = -1;          // in MIG mode
  unsigned slices = 0b101;      // numbers of its slices, as a bit set
  int missing_slice = 6;        // result for other numbers; 6: not found
  bool has_gpm = true;          // utilization of slices, as on Hopper and newer
  int open_gpm = 0;             // samples that are not freed
  int compute_mode = 0;         // 3: exclusive
  unsigned processes = 0;       // that use a GPU
  unsigned xid_instance = ~0U;  // GPU instance of the event
  unsigned long long xid = 0;   // 0: none pending
  int xid_device = 0;
  int inits = 0;
  int shutdowns = 0;
  int open_sets = 0;
};

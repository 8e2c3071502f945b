// SPDX-License-Identifier: Apache-2.0
// The part of NVML that lockstep doctor calls: two GPUs, the second with memory errors.
#include <cstring>

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlShutdown() {
  return 0;
}

int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::strncpy(text, "550.54.15", bytes);
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int devices[2] = {0, 1};
  *device = &devices[index];
  return 0;
}

int nvmlDeviceGetName(void* /*device*/, char* text, unsigned bytes) {
  std::strncpy(text, "Fake GPU", bytes);
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* /*device*/, unsigned long long* memory) {
  memory[0] = 80ULL << 30;
  return 0;
}

int nvmlDeviceGetEccMode(void* /*device*/, unsigned* now, unsigned* next) {
  *now = *next = 1;
  return 0;
}

int nvmlDeviceGetTotalEccErrors(void* device,
                                int /*kind*/,
                                int /*since*/,
                                unsigned long long* count) {
  *count = *static_cast<int*>(device) == 1 ? 3 : 0;
  return 0;
}

}  // extern "C"

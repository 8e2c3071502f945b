// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

int main(int argc, char** argv) {
  return lockstep::bench::run(argc, argv);
}

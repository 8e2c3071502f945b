// SPDX-License-Identifier: Apache-2.0
#include "tools/ckpt/ckpt.h"

int main(int argc, char** argv) {
  return lockstep::ckpt::run(argc, argv);
}

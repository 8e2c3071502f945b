// SPDX-License-Identifier: Apache-2.0
#include "tools/tokens/tokens.h"

int main(int argc, char** argv) {
  return lockstep::tokens::run(argc, argv);
}

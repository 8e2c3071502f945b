// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/image/pack_writer.h"
#include "common/image/store.h"

namespace lockstep::image {

// Reads and decodes every image completely; returns the corrupt ones in order.
std::vector<Problem> check(const Store& store, int threads, const Progress& progress);

}  // namespace lockstep::image

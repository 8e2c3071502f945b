// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace lockstep::image {

// Thrown for a file that is not a readable image. what() is a short predicate to follow the name of
// the file: "is empty", "ends early", "is a GIF file, not a JPEG".
class Corrupt : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep::image

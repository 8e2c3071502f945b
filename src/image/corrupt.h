// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace lockstep::image {

// A file that is no image that can be read. what() is a short reason without the file's name, which
// goes on after it: "is empty", "ends early", "is a GIF file, not a JPEG".
class Corrupt : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep::image

// SPDX-License-Identifier: Apache-2.0
// What programs run in, made on a lab: a container image and a conda that is none.
#pragma once

#include <string>

#include "slurm/lab.h"

namespace lockstep::testing {

// A small image in the user's home, made once by a lab that has Apptainer; its path. Run with
// `-B /usr -B /etc` it has what the node has, Python's torch too; its /image says where it is from.
std::string make_image(const Lab& lab);

// A directory with conda's `bin/activate` and `etc/profile.d/conda.sh` and one environment,
// `torch`, whose python is the node's; its path. Activating another one fails as conda does.
std::string make_conda(const Lab& lab);

}  // namespace lockstep::testing

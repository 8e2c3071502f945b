// SPDX-License-Identifier: Apache-2.0
// Environments for programs in a lab: a container image and a fake conda.
#pragma once

#include <string>

#include "launcher/slurm/lab.h"

namespace lockstep::testing {

// Builds a small image in the home of the user, once per lab with Apptainer. Returns its path. With
// `-B /usr -B /etc` it contains the programs of the node, including torch; /image shows its origin.
std::string make_image(const Lab& lab);

// Makes a directory with `bin/activate` and `etc/profile.d/conda.sh` like conda, and one
// environment, `torch`, with the python of the node. Returns its path. Activating another
// environment fails as in conda.
std::string make_conda(const Lab& lab);

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/dataset.h"
#include "training/data/idx.h"

namespace lockstep::data {

// A data set of images stored as bytes; samples are in the format of mnist(), lockstep/datasets.h.
DatasetPtr byte_images(LabelledImages images);

}  // namespace lockstep::data

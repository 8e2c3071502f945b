// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/idx.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// A data set of images kept as bytes, in the format that lockstep/datasets.h promises for mnist().
DatasetPtr byte_images(LabelledImages images);

}  // namespace lockstep::data

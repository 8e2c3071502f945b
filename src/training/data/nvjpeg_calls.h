// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nvjpeg.h>

#include "common/os/library.h"

namespace lockstep::data {

// The functions of nvJPEG that are used, loaded at run time: the library is optional.
struct NvjpegCalls {
  // Throws an Error (69) if the library or one of the functions is missing.
  static std::shared_ptr<const NvjpegCalls> load();

  explicit NvjpegCalls(os::Library from);

  os::Library library;
  decltype(&nvjpegCreateEx) create;
  decltype(&nvjpegDestroy) destroy;
  decltype(&nvjpegJpegStateCreate) create_state;
  decltype(&nvjpegJpegStateDestroy) destroy_state;
  decltype(&nvjpegJpegStreamCreate) create_stream;
  decltype(&nvjpegJpegStreamDestroy) destroy_stream;
  decltype(&nvjpegJpegStreamParseHeader) parse_header;
  decltype(&nvjpegDecodeBatchedSupported) is_supported;
  decltype(&nvjpegDecodeBatchedInitialize) initialize;
  decltype(&nvjpegDecodeBatched) decode;
};

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "training/data/nvjpeg_calls.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Where the dynamic linker looks; next to libcudart (toolkit, wheels of CUDA 13); the folder of its
// own that wheels of CUDA 12 have; the usual place of the toolkit.
std::vector<std::string> candidates(const std::string& name) {
  std::vector<std::string> found = {name};
  const std::filesystem::path cuda =
      os::Library::directory_of(reinterpret_cast<const void*>(&cudaGetDevice));
  if (!cuda.empty()) {
    found.push_back((cuda / name).string());
    found.push_back((cuda / "../../nvjpeg/lib" / name).string());
  }
  found.push_back("/usr/local/cuda/lib64/" + name);
  return found;
}

}  // namespace

NvjpegCalls::NvjpegCalls(os::Library from)
    : library(std::move(from)),
      create(library.function<decltype(create)>("nvjpegCreateEx")),
      destroy(library.function<decltype(destroy)>("nvjpegDestroy")),
      create_state(library.function<decltype(create_state)>("nvjpegJpegStateCreate")),
      destroy_state(library.function<decltype(destroy_state)>("nvjpegJpegStateDestroy")),
      create_stream(library.function<decltype(create_stream)>("nvjpegJpegStreamCreate")),
      destroy_stream(library.function<decltype(destroy_stream)>("nvjpegJpegStreamDestroy")),
      parse_header(library.function<decltype(parse_header)>("nvjpegJpegStreamParseHeader")),
      is_supported(library.function<decltype(is_supported)>("nvjpegDecodeBatchedSupported")),
      initialize(library.function<decltype(initialize)>("nvjpegDecodeBatchedInitialize")),
      decode(library.function<decltype(decode)>("nvjpegDecodeBatched")) {}

std::shared_ptr<const NvjpegCalls> NvjpegCalls::load() {
  // The major version is part of the interface.
  const std::string name = fmt::format("libnvjpeg.so.{}", NVJPEG_VER_MAJOR);
  for (const std::string& candidate : candidates(name)) {
    if (std::optional<os::Library> found = os::Library::find(candidate)) {
      auto calls = std::make_shared<const NvjpegCalls>(std::move(*found));
      if (calls->create != nullptr && calls->destroy != nullptr && calls->create_state != nullptr &&
          calls->destroy_state != nullptr && calls->create_stream != nullptr &&
          calls->destroy_stream != nullptr && calls->parse_header != nullptr &&
          calls->is_supported != nullptr && calls->initialize != nullptr &&
          calls->decode != nullptr) {
        return calls;
      }
    }
  }
  throw Error(ExitCode::Unavailable,
              fmt::format("cannot decode JPEG files on a GPU: {} was not found", name))
      .hint("install nvJPEG of CUDA " + std::to_string(NVJPEG_VER_MAJOR) + ", or --jpeg cpu");
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/contract/worker_env.h"

// The error with which a worker ends and that it does not print, because one failure usually ends
// all workers and the user should see one message. The worker stores it in its error file,
// RUN/logs/attempt-0/rank-3.error; its agent adds it to the log of the worker, from which the
// failure report quotes. Format:
//
//   {"format": 1, "error": "cannot finish all-reduce: rank 1 has exited\n  waiting for: rank 1"}
//
// The agent starts every worker without such a file.
namespace lockstep::contract {

// False if no agent reads the file, or if it cannot be written: the caller must print the error.
bool write_unprinted_error(const WorkerSpec& spec, std::string_view text) noexcept;

// Nothing if there is no such file, or if it has another format, such as that of Python workers.
std::optional<std::string> find_unprinted_error(const std::filesystem::path& file);

}  // namespace lockstep::contract

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

// TCP ports, as far as launcher and worker must know of them before a library opens its own.
namespace lockstep::os {

// A port that nobody on this machine listens on, outside the range from which the kernel serves
// outgoing connections, so that it is likely still free when a worker opens it.
int free_port();

// Whether a server could listen on `port` at `host`, an address of this machine: nobody listens on
// it there, nor on all addresses. Throws an Error when `host` is unknown or not of this machine.
bool is_port_free(const std::string& host, int port);

// Waits until somebody listens on `port` at `host`; false after `timeout`.
bool wait_for_port(const std::string& host, int port, std::chrono::milliseconds timeout);

}  // namespace lockstep::os

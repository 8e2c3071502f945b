// SPDX-License-Identifier: Apache-2.0
//
// A launcher must announce a port before a library in a worker opens it, and cannot keep the port
// open meanwhile. Three measures make it likely that the port is still free then:
//
//   range    outside the ephemeral range: the kernel does not assign it to outgoing connections
//   probe    a listener on all addresses works at this moment
//   claim    abstract unix socket names per port exclude other runs of lockstep
#include "common/os/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <random>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

#include "common/os/fd.h"
#include "common/os/system_error.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses look_up(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (fault != 0) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot find the address of '{}'", host))
        .fact("reason", ::gai_strerror(fault), "name service");
  }
  return {found, [](addrinfo* list) {
            ::freeaddrinfo(list);
          }};
}

// 0, or the error of listening there. With SO_REUSEADDR, connections of an earlier run in TIME_WAIT
// do not count, but a listener does. bind() alone does not suffice: with SO_REUSEADDR on both sides
// it succeeds while another socket is bound to the port, and only listen() reports the conflict.
int try_to_listen(const sockaddr& address, socklen_t size) {
  const Fd socket(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return errno;
  }
  const int yes = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.sa_family == AF_INET6) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  if (::bind(socket.number(), &address, size) != 0 || ::listen(socket.number(), 1) != 0) {
    return errno;
  }
  return 0;
}

bool can_connect(const addrinfo& address, std::chrono::milliseconds timeout) {
  const Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return false;
  }
  if (::connect(socket.number(), address.ai_addr, address.ai_addrlen) == 0) {
    return true;
  }
  pollfd waiting{.fd = socket.number(), .events = POLLOUT, .revents = 0};
  if (errno != EINPROGRESS || ::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) {
    return false;
  }
  int fault = 0;
  socklen_t size = sizeof(fault);
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &fault, &size);
  return fault == 0;
}

// Combines the results of several addresses. "localhost" can also resolve to ::1 on a machine
// without IPv6, so one usable address suffices.
class Trial {
 public:
  void take(int fault) {
    is_in_use_ = is_in_use_ || fault == EADDRINUSE;
    is_good_ = is_good_ || fault == 0;
    fault_ = fault;
  }

  bool succeeds(const std::string& host, int port) const {
    if (!is_in_use_ && !is_good_) {
      throw system_error(ExitCode::Unavailable,
                         fmt::format("cannot listen on port {} at '{}'", port, host),
                         fault_);
    }
    return !is_in_use_;
  }

 private:
  bool is_in_use_ = false;
  bool is_good_ = false;
  int fault_ = 0;
};

bool can_listen_at(const std::string& host, int port) {
  const Addresses addresses = look_up(host, port);
  Trial trial;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    trial.take(try_to_listen(*address->ai_addr, address->ai_addrlen));
  }
  return trial.succeeds(host, port);
}

// On all addresses of this machine. Avoids the name service, which queries all addresses from the
// kernel each time: a node with many workers reserves many ports.
bool can_listen(int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  Trial trial;
  trial.take(try_to_listen(reinterpret_cast<const sockaddr&>(v4), sizeof(v4)));
  trial.take(try_to_listen(reinterpret_cast<const sockaddr&>(v6), sizeof(v6)));
  return trial.succeeds("", port);
}

// The kernel uses this range for outgoing connections; some sites extend it.
struct PortRange {
  int first = 32768;
  int last = 60999;

  bool has(int port) const { return first <= port && port <= last; }
};

PortRange ephemeral_ports() {
  PortRange range;
  PortRange configured;
  if (std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> configured.first >>
      configured.last) {
    range = configured;
  }
  return range;
}

// Candidate ports: those outside the ephemeral range in the first window that has enough of them.
// Without such a window (a site with an ephemeral range of 1024 to 65535), the first window is used
// nevertheless: probe and claim still apply.
std::vector<int> quiet_ports() {
  constexpr size_t kEnough = 1024;
  constexpr std::array kWindows = {
      PortRange{20000, 32767}, PortRange{61000, 65535}, PortRange{10000, 19999}};
  const PortRange busy = ephemeral_ports();
  std::vector<int> ports;
  for (const PortRange& window : kWindows) {
    ports.clear();
    for (int port = window.first; port <= window.last; ++port) {
      if (!busy.has(port)) {
        ports.push_back(port);
      }
    }
    if (ports.size() >= kEnough) {
      return ports;
    }
  }
  for (int port = kWindows[0].first; port <= kWindows[0].last; ++port) {
    ports.push_back(port);
  }
  return ports;
}

// Binds an abstract name, which is unique in this network namespace and disappears with the
// process. Nothing if another process has it.
std::optional<Fd> find_name(const std::string& name) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    throw system_error(ExitCode::Unavailable, "cannot reserve a port", errno);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // leading NUL: an abstract name
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    return socket;
  }
  if (errno != EADDRINUSE) {
    throw system_error(ExitCode::Unavailable, "cannot reserve a port", errno);
  }
  return std::nullopt;
}

// Two names per port: one for all users, and one for this user. Any user can bind all names of the
// first kind, so `respects_others` is false where nothing else is left: another run of the same
// user still excludes the port, and so does a program that listens on it.
std::optional<PortClaim> find_claim(int port, bool respects_others) {
  std::optional<Fd> shared = find_name(fmt::format("lockstep/port/{}", port));
  if (!shared && respects_others) {
    return std::nullopt;
  }
  std::optional<Fd> own = find_name(fmt::format("lockstep/port/{}/{}", port, ::getuid()));
  if (!own) {
    return std::nullopt;
  }
  return PortClaim{.own = std::move(*own), .shared = shared ? std::move(*shared) : Fd()};
}

// Finds ports one by one, in random order, so that runs which start at the same time seldom try the
// same port.
class PortFinder {
 public:
  // `take` claims a port; it returns nothing if another process has it.
  template <typename Take>
  ReservedPort find(const Take& take) {
    // Out of at least 1024 candidates: fails only if nearly all of them are in use.
    constexpr int kTries = 400;
    for (const bool respects_others : {true, false}) {
      for (int attempt = 0; attempt < kTries; ++attempt) {
        const int port = ports_[which_(device_)];
        std::optional<PortClaim> claim = take(port, respects_others);
        // Claim first: two runs that probe the same port at the same time would both find it free.
        if (claim && can_listen(port)) {
          return {port, std::move(*claim)};
        }
      }
    }
    throw Error(ExitCode::Unavailable, "cannot find a free port on this machine")
        .fact("searched",
              fmt::format("{} ports from {} to {}", 2 * kTries, ports_.front(), ports_.back()),
              "probe")
        .hint("pass --master-port with a free port");
  }

 private:
  std::vector<int> ports_ = quiet_ports();
  std::random_device device_;
  std::uniform_int_distribution<size_t> which_{0, ports_.size() - 1};
};

}  // namespace

int free_port() {
  return PortFinder().find([](int, bool) { return std::optional(PortClaim()); }).number();
}

std::vector<ReservedPort> reserve_ports(int count) {
  PortFinder finder;
  std::vector<ReservedPort> ports;
  ports.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    ports.push_back(finder.find(&find_claim));
  }
  return ports;
}

bool is_port_free(const std::string& host, int port) {
  return (host.empty() || can_listen_at(host, port)) && can_listen(port);
}

bool wait_for_port(const std::string& host, int port, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPause(10);
  const auto deadline = Clock::now() + timeout;
  const Addresses addresses = look_up(host, port);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      if (can_connect(*address, std::max(left, kPause))) {
        return true;
      }
    }
    if (left <= kPause) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<std::string> find_peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(fd, generic, &length) != 0 ||
      ::getnameinfo(generic,
                    length,
                    host.data(),
                    host.size(),
                    port.data(),
                    port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return std::nullopt;
  }
  // A dual-stack socket shows IPv4 addresses as IPv6.
  constexpr std::string_view kMapped = "::ffff:";
  std::string_view text = host.data();
  if (text.starts_with(kMapped) && text.find('.') != std::string_view::npos) {
    text.remove_prefix(kMapped.size());
  }
  return fmt::format(fmt::runtime(text.find(':') == std::string_view::npos ? "{}:{}" : "[{}]:{}"),
                     text,
                     port.data());
}

}  // namespace lockstep::os

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// A gang of gangs: `inner` joins workers that are near each other (threads of a process, processes
// of a node), `outer` joins those of several such neighbourhoods. Most bytes then stay near.
//
// `rank` == neighbourhood * inner.size() + inner.rank(); every neighbourhood has inner.size()
// workers. `outer` is either there on every worker and joins those of equal inner rank, each of
// which brings its share across; or on those of inner rank 0 only, which speak for the others, and
// null elsewhere. Its ranks are the neighbourhoods. All workers call this together. `inner` and
// `outer` must outlive the result; `kind` is what kind() says.
std::unique_ptr<Communicator> make_two_level(
    Communicator& inner, Communicator* outer, int rank, int size, std::string kind);

// The same, and the result keeps both.
std::unique_ptr<Communicator> make_two_level(std::unique_ptr<Communicator> inner,
                                             std::unique_ptr<Communicator> outer,
                                             int rank,
                                             int size,
                                             std::string kind);

}  // namespace lockstep::comm

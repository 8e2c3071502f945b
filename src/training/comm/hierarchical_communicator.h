// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// A hierarchical process group: `inner` connects workers that are close to each other (threads of a
// process, processes of a node), `outer` connects several such inner groups. Most bytes then stay
// within an inner group.
//
// `rank` == inner_group * inner.size() + inner.rank(); every inner group has inner.size()
// workers. `outer` either exists on every worker and connects workers of equal inner rank, each of
// which transfers its share; or it exists only on workers of inner rank 0, which act for the
// others, and is null elsewhere. The ranks of `outer` are the inner groups. All workers call this
// together. `inner` and `outer` must outlive the result. `kind` is the result of kind().
std::unique_ptr<Communicator> make_hierarchical_communicator(
    Communicator& inner, Communicator* outer, int rank, int size, std::string kind);

// As above, but the result owns both.
std::unique_ptr<Communicator> make_hierarchical_communicator(std::unique_ptr<Communicator> inner,
                                                             std::unique_ptr<Communicator> outer,
                                                             int rank,
                                                             int size,
                                                             std::string kind);

}  // namespace lockstep::comm

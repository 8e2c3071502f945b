// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"
#include "common/contract/strategy_kind.h"
#include "lockstep/strategy.h"
#include "training/strategy/ddp/ddp.h"
#include "training/strategy/horovod/horovod.h"
#include "training/strategy/mirrored.h"
#include "training/strategy/single.h"
#include "training/strategy/zero/zero.h"

namespace lockstep {

void Strategy::restore(const PieceSource& /*source*/) {
  // A strategy that provides pieces() must override restore().
  LOCKSTEP_CHECK(!pieces().has_value());
}

// The only switch over strategies in the source tree.
std::unique_ptr<Strategy> make_strategy(std::string_view name,
                                        Communicator& communicator,
                                        const StrategyOptions& options) {
  switch (contract::parse_strategy(name)) {
    case contract::StrategyKind::Single:
      return strategy::make_single(communicator);
    case contract::StrategyKind::Horovod:
      return strategy::make_horovod(communicator, options);
    case contract::StrategyKind::Deepspeed:
      return strategy::make_zero(communicator, options);
    case contract::StrategyKind::Mirrored:
      return strategy::make_mirrored(communicator, options);
    case contract::StrategyKind::Ddp:
      break;
  }
  return strategy::make_ddp(communicator, options);
}

}  // namespace lockstep

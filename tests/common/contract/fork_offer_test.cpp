// SPDX-License-Identifier: Apache-2.0
#include "common/contract/fork_offer.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ForkOffer, ComesBackFromJsonAsItWas) {
  const ForkOffer offer{.agent_pid = 7,
                        .workers = {{.rank = 0,
                                     .stdout_fd = 4,
                                     .stderr_fd = 5,
                                     .variables = {{"RANK", "0"}, {"WHAT", "quote \" and \n"}}},
                                    {.rank = 1, .stdout_fd = 6, .stderr_fd = 8, .variables = {}}}};

  EXPECT_EQ(parse_fork_offer(to_json(offer)), offer);
}

TEST(ForkOffer, RefusesWhatIsNone) {
  for (const char* text : {"", "[]", "{", "{\"agent_pid\": 1}", "{\"agent_pid\": \"x\"}"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { parse_fork_offer(text); },
                ThrowsMessage<Error>(HasSubstr("cannot read the agent's fork offer")));
  }
}

}  // namespace
}  // namespace lockstep::contract

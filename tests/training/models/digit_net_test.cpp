// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/models.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

std::vector<std::string> parameter_names(const ImageClassifier& net) {
  std::vector<std::string> names;
  for (const auto& item : net.named_parameters()) {
    names.push_back(item.key());
  }
  return names;
}

TEST(DigitNet, GivesAScorePerClass) {
  for (const std::string& name : digit_net_names()) {
    SCOPED_TRACE(name);
    const auto net = digit_net(name);
    EXPECT_THAT(net->forward(torch::randn({3, 1, 28, 28})).sizes().vec(), ElementsAre(3, 10));
  }
}

TEST(DigitNet, NamesItsParametersAsThePythonProgramsDo) {
  EXPECT_THAT(parameter_names(*digit_net("cnn")),
              ElementsAre("layer1.0.weight",
                          "layer1.0.bias",
                          "layer1.1.weight",
                          "layer1.1.bias",
                          "layer2.0.weight",
                          "layer2.0.bias",
                          "layer2.1.weight",
                          "layer2.1.bias",
                          "fc.weight",
                          "fc.bias"));
  EXPECT_THAT(parameter_names(*digit_net("classic")),
              ElementsAre("conv1.weight",
                          "conv1.bias",
                          "conv2.weight",
                          "conv2.bias",
                          "fc1.weight",
                          "fc1.bias",
                          "fc2.weight",
                          "fc2.bias"));
}

TEST(DigitNet, ListsTheNamesWhenOneIsMisspelt) {
  EXPECT_THAT([] { digit_net("clasic"); },
              ThrowsMessage<Error>("unknown network 'clasic'\n"
                                   "  available: cnn, classic, mlp\n"
                                   "  try:       --net classic"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "training/train/options/flags.h"

namespace lockstep::train {
namespace {

Flags parse(std::vector<const char*> words) {
  words.insert(words.begin(), "bin/mnist");
  std::string help;
  return parse_flags(static_cast<int>(words.size()), words.data(), {.about = "Trains"}, help)
      .value();
}

std::string message_of(const std::vector<const char*>& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "no Error";
}

TEST(MirroredFlags, BelongToMirroredAlone) {
  EXPECT_EQ(message_of({"--replicas", "2"}),
            "cannot use --replicas 2 without -s mirrored\n"
            "  requested: --replicas 2  (command line)\n"
            "  strategy:  not given  (command line)\n"
            "  try:       -s mirrored, or lockstep run --nproc-per-node 2");
  EXPECT_EQ(message_of({"-s", "ddp", "--auto-shard", "file"}),
            "cannot use --auto-shard file without -s mirrored\n"
            "  requested: --auto-shard file  (command line)\n"
            "  strategy:  ddp  (command line)\n"
            "  try:       -s mirrored; all other strategies use --auto-shard data");
  EXPECT_EQ(message_of({"-s", "horovod", "--collective", "ring"}),
            "cannot use --collective ring without -s mirrored\n"
            "  requested: --collective ring  (command line)\n"
            "  strategy:  horovod  (command line)\n"
            "  try:       --transport gloo");
}

TEST(MirroredFlags, RefuseWhatMakesNoSense) {
  EXPECT_EQ(message_of({"-s", "mirrored", "--replicas", "-1"}),
            "--replicas -1 is out of range\n"
            "  expected: an integer of at least 1\n"
            "  try:      --replicas 2");
  EXPECT_EQ(message_of({"-s", "mirrored", "--collective", "nccl", "--transport", "gloo"}),
            "--collective nccl conflicts with --transport gloo\n"
            "  --collective nccl: selects NCCL, between GPUs  (command line)\n"
            "  --transport:       gloo  (command line)\n"
            "  try:               --transport gloo");
  EXPECT_EQ(message_of({"-s", "mirrored", "--collective", "ring", "--transport", "mpi"}),
            "--collective ring conflicts with --transport mpi\n"
            "  --collective ring: selects gloo, a ring over TCP  (command line)\n"
            "  --transport:       mpi  (command line)\n"
            "  try:               --transport mpi");
  EXPECT_EQ(message_of({"-s", "mirrored", "--auto-shard", "fiel"}),
            "--auto-shard 'fiel' is not a valid value\n"
            "  expected: data, file, auto, off\n"
            "  try:      --auto-shard file");
}

TEST(MirroredFlags, TakeTheRingForGloo) {
  EXPECT_EQ(parse({"-s", "mirrored", "--collective", "ring"}).transport, "gloo");
  EXPECT_EQ(parse({"-s", "mirrored", "--collective", "nccl"}).transport, "nccl");
  EXPECT_EQ(parse({"-s", "mirrored"}).transport, "auto");
  EXPECT_EQ(parse({"--replicas", "1"}).replicas, 1);
}

}  // namespace
}  // namespace lockstep::train

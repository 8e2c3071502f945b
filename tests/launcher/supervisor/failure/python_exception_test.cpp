// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/failure/python_exception.h"

#include <gmock/gmock.h>

#include "common/base/text.h"

namespace lockstep::supervisor {
namespace {

std::optional<PythonException> find_in(std::string_view log) {
  return find_exception(split(log, '\n'));
}

TEST(PythonExceptions, AreFoundWithTheInnermostFrame) {
  const auto found = find_in(R"(epoch 3
Traceback (most recent call last):
  File "/home/me/train.py", line 88, in <module>
    main()
  File "/home/me/train.py", line 42, in main
    loss = step(batch)
           ^^^^^^^^^^^
RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x784 and 512x10)
done)");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x784 and 512x10)");
  EXPECT_EQ(found->raised_at, (PythonFrame{"/home/me/train.py", 42, "main"}));
  EXPECT_EQ(found->called_from, std::nullopt);
}

TEST(PythonExceptions, TellWhoCalledTheLibraryThatRaised) {
  const auto found = find_in(R"(Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
  File "train.py", line 7, in main
    model(x)
  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1194, in _call_impl
    return forward_call(*input, **kwargs)
  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 114, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: expected scalar type Float but found Half)");

  ASSERT_TRUE(found);
  EXPECT_EQ(
      found->raised_at,
      (PythonFrame{"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", 114, "forward"}));
  EXPECT_EQ(found->called_from, (PythonFrame{"train.py", 7, "main"}));
}

TEST(PythonExceptions, AreTheLastOnesOfAChain) {
  const auto found = find_in(R"(Traceback (most recent call last):
  File "a.py", line 1, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in <module>
    raise DataLost
__main__.DataLost)");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "__main__.DataLost");
  EXPECT_EQ(found->raised_at, (PythonFrame{"a.py", 5, "<module>"}));
}

TEST(PythonExceptions, AreReadThroughTorchsPrefixAndOtherThreads) {
  const auto found = find_in(R"([rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 4, in <module>
[rank1]:     main()
NCCL INFO: something of another thread
[rank1]: torch.distributed.DistBackendError: NCCL error, unhandled system error
[rank1]: ncclSystemError: System call failed.)");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "torch.distributed.DistBackendError: NCCL error, unhandled system error");
  EXPECT_EQ(found->raised_at, (PythonFrame{"train.py", 4, "<module>"}));
}

TEST(PythonExceptions, PassOverLinesOfOthersBetweenTheFrames) {
  const auto found = find_in(R"(Traceback (most recent call last):
  File "train.py", line 4, in <module>
2026-01-02 10:00:00 step 7 of 9
WARNING:root:slow disk
    main()
KeyError: 'loss')");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "KeyError: 'loss'");
}

TEST(PythonExceptions, AreFoundWhereTheProgramDoesNotParse) {
  const auto found = find_in(R"(  File "/home/me/train.py", line 3
    x = = 1
        ^
SyntaxError: invalid syntax)");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "SyntaxError: invalid syntax");
  EXPECT_EQ(found->raised_at, (PythonFrame{"/home/me/train.py", 3, ""}));
}

TEST(PythonExceptions, AreNotSeenWhereThereAreNone) {
  for (const char* log : {"",
                          "RuntimeError: printed, not raised",
                          "Traceback (most recent call last):",
                          "Traceback (most recent call last):\n  File \"a.py\", line x, in y\n",
                          "SyntaxError: without a place"}) {
    EXPECT_EQ(find_in(log), std::nullopt) << log;
  }
}

TEST(RecordedExceptions, AreReadAsTorchWritesThem) {
  const auto found = find_recorded_exception(R"({"message": {
      "message": "RuntimeError: no\nsecond line",
      "extraInfo": {
        "py_callstack": "Traceback (most recent call last):\n  File \"/x/errors/__init__.py\", line 346, in wrapper\n    return f(*args, **kwargs)\n  File \"train.py\", line 6, in main\n    raise RuntimeError(\"no\")\nRuntimeError: no\nsecond line\n",
        "timestamp": "1768000000"}}})");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "RuntimeError: no");
  EXPECT_EQ(found->raised_at, (PythonFrame{"train.py", 6, "main"}));
}

TEST(RecordedExceptions, MayBePlainText) {
  EXPECT_EQ(find_recorded_exception(R"({"message": "it broke"})")->text, "it broke");
}

TEST(RecordedExceptions, AreNoneInAnythingElse) {
  for (const char* text : {"",
                           "{",
                           "[]",
                           "7",
                           "{}",
                           R"({"message": 7})",
                           R"({"message": {}})",
                           R"({"message": {"message": 7}})"}) {
    EXPECT_EQ(find_recorded_exception(text), std::nullopt) << text;
  }
  EXPECT_EQ(find_recorded_exception(R"({"message": {"message": "E: x", "extraInfo": 7}})")->text,
            "E: x");
}

}  // namespace
}  // namespace lockstep::supervisor

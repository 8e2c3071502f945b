#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/check_layers.py on small trees with one fault each."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_layers  # pylint: disable=wrong-import-position

LAYERS = """\
[ground]
base:
os:    base
[launcher]
plan:  base os
[worker]
comm:  base
train: base comm
[rings]
apps:     plan
examples: PUBLIC
tests:    ANY
[owners]
base:  error
comm:  communicator
train: run
[exceptions]
src/comm/comm.cpp: sys/mman.h  # memory that ranks share
"""

GOOD_TREE = {
    "tools/layers.txt": LAYERS,
    "include/lockstep/error.h": "#include <string>\n",
    "include/lockstep/communicator.h": '#include <torch/torch.h>\n#include "lockstep/error.h"\n',
    "include/lockstep/run.h": '#include "lockstep/communicator.h"\n',
    "src/base/CMakeLists.txt": "lockstep_module(base\n  SOURCES error.cpp)\n",
    "src/base/error.cpp": '#include "lockstep/error.h"\n',
    "src/base/text.h": "#include <string>\n",
    "src/os/CMakeLists.txt": "lockstep_module(os SOURCES environment.cpp DEPS base)\n",
    "src/os/environment.cpp": '#include <unistd.h>\nauto x = getenv("HOME");\n',
    "src/os/files.h": '#include "base/text.h"\n',
    "src/plan/CMakeLists.txt": "lockstep_module(plan SOURCES plan.cpp DEPS base os)\n",
    "src/plan/plan.h": "#pragma once\n",
    "src/plan/plan.cpp": '#include "plan/plan.h"\n#include "os/files.h"\n'
                         'auto why = "torch::ones and getenv( are words here"; // at::Tensor\n',
    "src/comm/CMakeLists.txt": "lockstep_module(comm SOURCES comm.cpp DEPS base TORCH)\n",
    "src/comm/comm.h": "#include <torch/torch.h>\n",
    "src/comm/comm.cpp": '#include "comm/comm.h"\n#include <sys/mman.h>\n',
    "src/comm/missing_headers/torch/x.h": '#include "anything.h"\n',
    "src/train/CMakeLists.txt": "lockstep_module(train SOURCES run.cpp DEPS base comm TORCH)\n",
    "src/train/run.cpp": '#include "lockstep/run.h"\n#include "comm/comm.h"\n',
    "apps/main.cpp": '#include "plan/plan.h"\n',
    "examples/mnist/main.cpp": "#include <lockstep/run.h>\n",
    "tests/plan/plan_test.cpp": '#include "plan/plan.h"\n#include <unistd.h>\n',
}


def offences_of(changes):
    """The offences in the good tree with some files changed (None removes one)."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**GOOD_TREE, **changes}.items():
            if text is not None:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        _, offences = check_layers.check(root)
        return [f"{path}:{line}: {sentence}" for path, line, sentence in offences]


class CheckLayers(unittest.TestCase):
    def assert_only(self, changes, expected):
        self.assertEqual(offences_of(changes), [expected])

    def test_a_good_tree_has_no_offence(self):
        self.assertEqual(offences_of({}), [])

    def test_an_include_never_goes_up(self):
        self.assert_only({"src/base/text.h": '#include <string>\n#include "os/files.h"\n'},
                         "src/base/text.h:2: os/files.h points upwards: os depends on base")

    def test_an_include_follows_the_table(self):
        self.assert_only({"src/comm/comm.h": '#include "os/files.h"\n'},
                         "src/comm/comm.h:1: comm must not include os/files.h: "
                         "layers.txt does not list os for comm")

    def test_the_towers_never_see_each_other(self):
        self.assert_only({"src/train/loop.h": '#include "plan/plan.h"\n'},
                         "src/train/loop.h:1: plan/plan.h is in the other tower: "
                         "train is worker, plan is launcher")

    def test_angle_brackets_hide_nothing(self):
        self.assert_only({"src/base/text.h": "#include <os/files.h>\n"},
                         "src/base/text.h:1: os/files.h points upwards: os depends on base")

    def test_a_public_header_has_the_level_of_its_owner(self):
        self.assert_only({"src/comm/comm.h": '#include "lockstep/run.h"\n'},
                         "src/comm/comm.h:1: lockstep/run.h points upwards: train depends on comm")
        self.assert_only({"include/lockstep/communicator.h": '#include "lockstep/run.h"\n'},
                         "include/lockstep/communicator.h:1: lockstep/run.h points upwards: "
                         "train depends on comm")

    def test_a_public_header_includes_nothing_of_src(self):
        self.assert_only({"include/lockstep/run.h": '#include "comm/comm.h"\n'},
                         "include/lockstep/run.h:1: "
                         "a public header must not include comm/comm.h of src/")

    def test_a_public_header_has_an_owner(self):
        self.assert_only({"include/lockstep/extra.h": "#pragma once\n"},
                         "include/lockstep/extra.h:1: "
                         "this public header has no owner in layers.txt")

    def test_a_module_is_listed(self):
        self.assert_only({"src/utils/junk.h": "#pragma once\n"},
                         "src/utils:1: this module is not listed in layers.txt")

    def test_a_listed_module_exists(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("[launcher]", "[launcher]\nagent: base")},
                         "tools/layers.txt:5: there is no module src/agent")

    def test_the_table_has_no_cycle(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("base:\n", "base: os\n", 1)},
                         "tools/layers.txt:2: the table has a cycle: base -> os -> base")

    def test_the_table_keeps_the_towers_apart(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("base comm", "base comm plan")},
                         "tools/layers.txt:8: train (worker tower) must not include plan "
                         "(launcher tower)")

    def test_the_table_names_only_modules(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("plan:  base os", "plan:  base oz")},
                         "tools/layers.txt:5: plan lists 'oz', which is not a module")

    def test_the_launcher_includes_no_libtorch(self):
        self.assert_only({"src/plan/plan.h": "#include <torch/torch.h>\n"},
                         "src/plan/plan.h:1: <torch/torch.h> is a header of libtorch, "
                         "which plan must not need")

    def test_the_launcher_names_no_libtorch(self):
        self.assert_only({"src/plan/plan.h": "void f(const at::Tensor&);\n"},
                         "src/plan/plan.h:1: at:: belongs to libtorch, which plan must not need")

    def test_system_headers_stay_in_os(self):
        self.assert_only({"src/plan/plan.h": "#include <sys/wait.h>\n"},
                         "src/plan/plan.h:1: <sys/wait.h> belongs in os/ "
                         "(or in [exceptions] of layers.txt, with a reason)")

    def test_an_exception_is_for_one_header_and_says_why(self):
        self.assert_only({"src/comm/comm.cpp": '#include "comm/comm.h"\n#include <unistd.h>\n'},
                         "src/comm/comm.cpp:2: <unistd.h> belongs in os/ "
                         "(or in [exceptions] of layers.txt, with a reason)")
        without_reason = LAYERS.replace("  # memory that ranks share", "")
        self.assert_only({"tools/layers.txt": without_reason},
                         "tools/layers.txt:18: "
                         "the exception for src/comm/comm.cpp has no reason")

    def test_getenv_exists_once(self):
        self.assert_only({"src/comm/comm.h": 'const char* home = std::getenv("HOME");\n'},
                         "src/comm/comm.h:1: getenv belongs in src/os/environment.cpp only")

    def test_includes_are_written_from_the_root(self):
        self.assert_only({"src/comm/solo.h": '#include "comm.h"\n'},
                         'src/comm/solo.h:1: "comm.h" is not written from the root of src/ '
                         "or include/")

    def test_a_source_includes_its_own_header_first(self):
        self.assert_only({"src/plan/plan.cpp": '#include "os/files.h"\n#include "plan/plan.h"\n'},
                         "src/plan/plan.cpp:1: does not include its own plan/plan.h first")

    def test_examples_use_public_headers_only(self):
        self.assert_only({"examples/mnist/main.cpp": '#include "comm/comm.h"\n'},
                         "examples/mnist/main.cpp:1: examples must not include comm/comm.h; "
                         "it can include public headers")

    def test_cmake_says_the_same_as_the_table(self):
        self.assert_only({"src/train/CMakeLists.txt":
                          "lockstep_module(train SOURCES run.cpp DEPS base TORCH)\n"},
                         "src/train/CMakeLists.txt:1: DEPS are 'base', "
                         "layers.txt lists 'base comm'")

    def test_cmake_names_every_source(self):
        self.assert_only({"src/plan/request.cpp": "int x;\n"},
                         "src/plan/CMakeLists.txt:1: does not list request.cpp")

    def test_the_launcher_asks_cmake_for_no_libtorch(self):
        self.assert_only({"src/plan/CMakeLists.txt":
                          "lockstep_module(plan TORCH SOURCES plan.cpp DEPS base os)\n"},
                         "src/plan/CMakeLists.txt:1: TORCH, which plan must not need")


if __name__ == "__main__":
    unittest.main()

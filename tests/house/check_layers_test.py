#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/check_layers.py on small trees with one violation each."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_layers  # pylint: disable=wrong-import-position

LAYERS = """\
[modules]
base:
os:    base
plan:  base os
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
src/training/comm/comm.cpp: sys/mman.h  # memory that ranks share
"""

GOOD_TREE = {
    "tools/layers.txt": LAYERS,
    "include/lockstep/error.h": "#include <string>\n",
    "include/lockstep/communicator.h": '#include <torch/torch.h>\n#include "lockstep/error.h"\n',
    "include/lockstep/run.h": '#include "lockstep/communicator.h"\n',
    "src/common/base/CMakeLists.txt": "lockstep_module(base\n  SOURCES error.cpp)\n",
    "src/common/base/error.cpp": '#include "lockstep/error.h"\n',
    "src/common/base/text.h": "#include <string>\n",
    "src/common/os/CMakeLists.txt": "lockstep_module(os SOURCES environment.cpp DEPS base)\n",
    "src/common/os/environment.cpp": '#include <unistd.h>\nauto x = getenv("HOME");\n',
    "src/common/os/files.h": '#include "common/base/text.h"\n',
    "src/launcher/plan/CMakeLists.txt": "lockstep_module(plan SOURCES plan.cpp DEPS base os)\n",
    "src/launcher/plan/plan.h": "#pragma once\n",
    "src/launcher/plan/plan.cpp": '#include "launcher/plan/plan.h"\n#include "common/os/files.h"\n'
                         'auto why = "torch::ones and getenv( are words here"; // at::Tensor\n',
    "src/training/comm/CMakeLists.txt": "lockstep_module(comm SOURCES comm.cpp DEPS base TORCH)\n",
    "src/training/comm/comm.h": "#include <torch/torch.h>\n",
    "src/training/comm/comm.cpp": '#include "training/comm/comm.h"\n#include <sys/mman.h>\n',
    "src/training/comm/missing_headers/torch/x.h": '#include "anything.h"\n',
    "src/training/train/CMakeLists.txt": "lockstep_module(train SOURCES run.cpp DEPS base comm TORCH)\n",
    "src/training/train/run.cpp": '#include "lockstep/run.h"\n#include "training/comm/comm.h"\n',
    "apps/main.cpp": '#include "launcher/plan/plan.h"\n',
    "examples/mnist/main.cpp": "#include <lockstep/run.h>\n",
    "tests/plan/plan_test.cpp": '#include "launcher/plan/plan.h"\n#include <unistd.h>\n',
}


def offences_of(changes):
    """The good tree with some files changed (None removes one), checked."""
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
        self.assert_only({"src/common/base/text.h": '#include <string>\n#include "common/os/files.h"\n'},
                         "src/common/base/text.h:2: common/os/files.h goes up: os depends on base")

    def test_an_include_follows_the_table(self):
        self.assert_only({"src/training/comm/comm.h": '#include "common/os/files.h"\n'},
                         "src/training/comm/comm.h:1: comm must not include common/os/files.h: "
                         "layers.txt does not list os for comm")

    def test_the_towers_never_see_each_other(self):
        self.assert_only({"src/training/train/loop.h": '#include "launcher/plan/plan.h"\n'},
                         "src/training/train/loop.h:1: launcher/plan/plan.h belongs to another tower: "
                         "train is training, plan is launcher")

    def test_angle_brackets_hide_nothing(self):
        self.assert_only({"src/common/base/text.h": "#include <common/os/files.h>\n"},
                         "src/common/base/text.h:1: common/os/files.h goes up: os depends on base")

    def test_a_public_header_has_the_level_of_its_owner(self):
        self.assert_only({"src/training/comm/comm.h": '#include "lockstep/run.h"\n'},
                         "src/training/comm/comm.h:1: lockstep/run.h goes up: train depends on comm")
        self.assert_only({"include/lockstep/communicator.h": '#include "lockstep/run.h"\n'},
                         "include/lockstep/communicator.h:1: lockstep/run.h goes up: "
                         "train depends on comm")

    def test_a_public_header_includes_nothing_of_src(self):
        self.assert_only({"include/lockstep/run.h": '#include "training/comm/comm.h"\n'},
                         "include/lockstep/run.h:1: "
                         "a public header must not include training/comm/comm.h of src/")

    def test_a_public_header_includes_no_other_library(self):
        self.assert_only({"include/lockstep/run.h": "#include <cstdint>\n#include <fmt/format.h>\n"},
                         "include/lockstep/run.h:2: a public header must not include <fmt/format.h>; "
                         "allowed: public headers, the standard library and <torch/...>")

    def test_a_public_header_declares_no_namespace_of_its_own(self):
        self.assert_only({"include/lockstep/run.h": "namespace lockstep {\nnamespace extra {\nclass Part;\n}\n}\n"
                                                    "namespace lockstep {\nclass Part {};\n}\n"},
                         "include/lockstep/run.h:2: a public header must not declare the namespace extra")

    def test_a_public_header_names_no_namespace_of_src(self):
        for name in ("comm::Record", "lockstep::comm::Record", "::lockstep::comm::Record"):
            self.assert_only({"src/training/comm/comm.h": "namespace lockstep::comm {\nclass Record;\n}\n",
                              "include/lockstep/run.h": f"// comm::Record\nvoid f({name}&);\n"},
                             "include/lockstep/run.h:2: a public header must not name comm::, a namespace of src/")

    def test_a_public_header_can_name_a_library_with_the_name_of_a_namespace_of_src(self):
        self.assertEqual(offences_of({"src/training/comm/comm.h": "namespace lockstep::optim {\n}\n",
                                      "include/lockstep/run.h": "void f(torch::optim::Optimizer&);\n"}), [])

    def test_a_public_header_declares_only_public_types(self):
        self.assert_only({"include/lockstep/run.h": "class Part;\n"},
                         "include/lockstep/run.h:1: "
                         "a public header must not declare Part, which no public header defines")
        self.assertEqual(offences_of({"include/lockstep/error.h": "class Part final : public Base {\n};\n",
                                      "include/lockstep/run.h": "class Part;\nclass Run {\n  struct State;\n};\n"}),
                         [])

    def test_a_public_header_has_an_owner(self):
        self.assert_only({"include/lockstep/extra.h": "#pragma once\n"},
                         "include/lockstep/extra.h:1: "
                         "this public header has no owner in layers.txt")

    def test_a_module_is_listed(self):
        self.assert_only({"src/common/odd/CMakeLists.txt": "lockstep_module(odd)\n"},
                         "src/common/odd:1: layers.txt does not list the module 'odd'")

    def test_a_source_belongs_to_a_module(self):
        self.assert_only({"src/common/junk.h": "#pragma once\n"},
                         "src/common/junk.h:1: is not in a folder of a module")

    def test_a_module_is_in_a_tower(self):
        self.assert_only({"src/attic/old/CMakeLists.txt": "lockstep_module(old)\n"},
                         "src/attic/old:1: 'attic' is not a tower; use common, launcher, training, tools")

    def test_a_file_in_a_subfolder_belongs_to_the_module_around_it(self):
        self.assert_only({"src/launcher/plan/parts/part.h": '#include "training/comm/comm.h"\n'},
                         "src/launcher/plan/parts/part.h:1: training/comm/comm.h belongs to another tower: "
                         "plan is launcher, comm is training")

    def test_a_listed_module_exists(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("plan:", "agent: base\nplan:")},
                         "tools/layers.txt:4: no folder below src/ defines the module 'agent'")

    def test_the_table_has_no_cycle(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("base:\n", "base: os\n", 1)},
                         "tools/layers.txt:2: the table has a cycle: base -> os -> base")

    def test_the_table_keeps_the_towers_apart(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("base comm", "base comm plan")},
                         "tools/layers.txt:6: train (training) must not include plan (launcher)")

    def test_the_table_names_only_modules(self):
        self.assert_only({"tools/layers.txt": LAYERS.replace("plan:  base os", "plan:  base oz")},
                         "tools/layers.txt:4: plan lists 'oz', which is not a module")

    def test_the_launcher_includes_no_libtorch(self):
        self.assert_only({"src/launcher/plan/plan.h": "#include <torch/torch.h>\n"},
                         "src/launcher/plan/plan.h:1: <torch/torch.h> belongs to libtorch, "
                         "which plan must not use")

    def test_the_launcher_names_no_libtorch(self):
        self.assert_only({"src/launcher/plan/plan.h": "void f(const at::Tensor&);\n"},
                         "src/launcher/plan/plan.h:1: at:: belongs to libtorch, which plan must not use")

    def test_system_headers_stay_in_os(self):
        self.assert_only({"src/launcher/plan/plan.h": "#include <sys/wait.h>\n"},
                         "src/launcher/plan/plan.h:1: <sys/wait.h> belongs in os/ "
                         "(or in [exceptions] of layers.txt, with its reason)")

    def test_an_exception_is_for_one_header_and_says_why(self):
        self.assert_only({"src/training/comm/comm.cpp": '#include "training/comm/comm.h"\n#include <unistd.h>\n'},
                         "src/training/comm/comm.cpp:2: <unistd.h> belongs in os/ "
                         "(or in [exceptions] of layers.txt, with its reason)")
        without_reason = LAYERS.replace("  # memory that ranks share", "")
        self.assert_only({"tools/layers.txt": without_reason},
                         "tools/layers.txt:16: "
                         "the exception for src/training/comm/comm.cpp does not say why")

    def test_getenv_exists_once(self):
        self.assert_only({"src/training/comm/comm.h": 'const char* home = std::getenv("HOME");\n'},
                         "src/training/comm/comm.h:1: getenv is allowed in src/common/os/environment.cpp only")

    def test_includes_are_written_from_the_root(self):
        self.assert_only({"src/training/comm/solo.h": '#include "comm.h"\n'},
                         'src/training/comm/solo.h:1: "comm.h" is not a path from the root of src/ '
                         "or include/")

    def test_a_source_includes_its_own_header_first(self):
        self.assert_only({"src/launcher/plan/plan.cpp": '#include "common/os/files.h"\n#include "launcher/plan/plan.h"\n'},
                         "src/launcher/plan/plan.cpp:1: does not include its own launcher/plan/plan.h first")

    def test_examples_use_public_headers_only(self):
        self.assert_only({"examples/mnist/main.cpp": '#include "training/comm/comm.h"\n'},
                         "examples/mnist/main.cpp:1: examples must not include training/comm/comm.h; "
                         "allowed: public headers")

    def test_cmake_says_the_same_as_the_table(self):
        self.assert_only({"src/training/train/CMakeLists.txt":
                          "lockstep_module(train SOURCES run.cpp DEPS base TORCH)\n"},
                         "src/training/train/CMakeLists.txt:1: DEPS are 'base', "
                         "layers.txt says 'base comm'")

    def test_cmake_names_every_source(self):
        self.assert_only({"src/launcher/plan/request.cpp": "int x;\n"},
                         "src/launcher/plan/CMakeLists.txt:1: does not list request.cpp")

    def test_the_launcher_asks_cmake_for_no_libtorch(self):
        self.assert_only({"src/launcher/plan/CMakeLists.txt":
                          "lockstep_module(plan TORCH SOURCES plan.cpp DEPS base os)\n"},
                         "src/launcher/plan/CMakeLists.txt:1: TORCH, which plan must not use")


if __name__ == "__main__":
    unittest.main()

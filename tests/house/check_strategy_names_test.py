#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/check_strategy_names.py on small texts."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_strategy_names  # pylint: disable=wrong-import-position


def offences_of(text, name="src/training/train/a.cpp"):
    return list(check_strategy_names.find(name, text))


class CheckStrategyNames(unittest.TestCase):
    def test_finds_a_comparison_and_a_name_in_a_message(self):
        self.assertEqual(offences_of('\nif (name == "ddp") {}\n'), [(2, "ddp")])
        self.assertEqual(offences_of('hint("-s horovod, or nothing");\n'), [(1, "horovod")])
        self.assertEqual(offences_of('R"(use\n-s mirrored)";\n'), [(1, "mirrored")])

    def test_finds_a_kind(self):
        self.assertEqual(offences_of("case StrategyKind::Ddp:\n"), [(1, "StrategyKind::Ddp")])

    def test_finds_a_name_after_a_comment_marker_in_a_literal(self):
        self.assertEqual(offences_of('open("http://host"); name = "deepspeed";\n'), [(1, "deepspeed")])

    def test_skips_options_keys_paths_and_comments(self):
        self.assertEqual(offences_of('#include "training/strategy/horovod/options.h"\n'), [])
        self.assertEqual(offences_of('add("--deepspeed", "deepspeed_config");  // as "ddp"\n'), [])
        self.assertEqual(offences_of('/* "ddp"\n StrategyKind::Ddp */\n'), [])

    def test_finds_comparisons_outside_of_the_training_library(self):
        launcher = "src/launcher/slurm/job.cpp"
        self.assertEqual(offences_of('\nif (job.strategy == "horovod") {}\n', launcher),
                         [(2, 'strategy == "horovod"')])
        self.assertEqual(offences_of('add("deepspeed", "as deepspeed");\n', launcher), [])

    def test_skips_the_folder_of_the_strategies(self):
        self.assertEqual(offences_of('"ddp"', "src/training/strategy/ddp/ddp.cpp"), [])


if __name__ == "__main__":
    unittest.main()

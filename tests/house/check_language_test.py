#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/check_language.py on small texts."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_language  # pylint: disable=wrong-import-position


def hits_of(name, text):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        phrases = check_language.read_phrases(ROOT / check_language.LIST)
        return [(line, phrase) for _, line, phrase, _ in check_language.find(root, phrases)]


class CheckLanguage(unittest.TestCase):
    def test_finds_a_phrase_in_a_message_and_in_a_comment(self):
        self.assertEqual(hits_of("src/a.cpp", 'throw Error("n3 may not join");\n// Nobody waits.\n'),
                         [(1, "may not"), (2, "Nobody")])

    def test_finds_a_phrase_in_a_document(self):
        self.assertEqual(hits_of("docs/a.md", "# A\n\nEvery key, once each.\n"), [(3, "once each")])

    def test_finds_a_phrase_in_scripts(self):
        for name in ("tools/a.sh", "tools/a.py", "cmake/a.cmake", "tools/slurm-lab", "CMakeLists.txt"):
            self.assertEqual(hits_of(name, "# First.\necho 'n3 may not join'\n"), [(2, "may not")])

    def test_skips_code(self):
        self.assertEqual(hits_of("src/a.cpp", "int told = 0;  // `told` counts\n#include \"gang/a.h\"\n"
                                              'json["gang"] = 1;\n'), [])
        self.assertEqual(hits_of("docs/a.md", "```\nit may not\n```\nand `beside`\n"), [])

    def test_skips_tests_and_marked_lines(self):
        self.assertEqual(hits_of("tests/a.cpp", "// Nobody.\n"), [])
        self.assertEqual(hits_of("src/a.cpp", '"it was told";  // language: allow\n'), [])

    def test_every_phrase_has_a_reason(self):
        for _, reason in check_language.read_phrases(ROOT / check_language.LIST):
            self.assertTrue(reason)


if __name__ == "__main__":
    unittest.main()

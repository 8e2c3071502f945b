#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every header compiles alone: headers_alone.py COMPILER BUILD FLAGS LIST

BUILD/LIST.txt lists headers. BUILD/FLAGS.cpp is a source whose command in compile_commands.json is
used for them. With libtorch, the compiler spends five seconds on templates after the last line. Each
header is therefore followed by a deliberate error at which the compiler stops. If the header is
correct, that error is the first one.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

MESSAGE = "the end of the header"
# After the last brace: inside a namespace that was left open, ::the_end does not exist.
END = f'int the_end;\nstatic_assert(sizeof(::the_end) == 0, "{MESSAGE}");\n'
# Faults that must be detected, to prove that the check works: a missing header, unknown names.
UNSOUND = ('#include "no/such_header.h"', "Unknown value();", "inline int f() { return unknown(); }",
           "namespace open {", "struct Open {", "std::string text();",
           '#include <string>\nstd::filesystem::path place();')
TAKES_A_VALUE = ("-o", "-c", "-MT", "-MF")


def command_for(source, compiler, commands):
    """The command that compiles `source`, without its input and output files."""
    entry = next(each for each in commands if pathlib.Path(each["file"]) == source)
    words = shlex.split(entry["command"])
    words = words[words.index(compiler):]
    kept = []
    while words:
        word = words.pop(0)
        if word in TAKES_A_VALUE:
            words.pop(0)
        elif word != "-MD":
            kept.append(word)
    return kept + ["-fsyntax-only", "-Wfatal-errors", "-x", "c++", "-"], entry["directory"]


def objection(text, words, directory, stops_there):
    """The error of the compiler for this source text, or nothing."""
    result = subprocess.run(words, cwd=directory, text=True, capture_output=True, check=False,
                            input=text + "\n" + (END if stops_there else ""),
                            env={**os.environ, "LC_ALL": "C"})
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    if stops_there and len(errors) == 1 and MESSAGE in errors[0]:
        return ""
    if not stops_there and result.returncode == 0:
        return ""
    return f"{text} does not compile alone:\n{result.stderr}"


def jobs():
    """The number of compilers that cores and memory allow."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(len(os.sched_getaffinity(0)), memory // 2_500_000_000 + 1)


def main(compiler, build, flags, headers):
    commands = json.loads((build.parents[1] / "compile_commands.json").read_text())
    words, directory = command_for(build / f"{flags}.cpp", compiler, commands)
    stops_there = "-include" in words or "-include-pch" in words
    sound = [f'#include "{header}"' for header in (build / f"{headers}.txt").read_text().split()]
    unsound = [text for text in UNSOUND if not (stops_there and "std::" in text)]
    texts = sound + unsound
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        objections = dict(zip(texts, pool.map(
            lambda text: objection(text, words, directory, stops_there), texts)))
    wrong = [objections[text] for text in sound if objections[text]]
    wrong += [f"this fault was not detected: {text}" for text in unsound if not objections[text]]
    print("\n".join(wrong) if wrong else f"{len(sound)} headers compile alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]))

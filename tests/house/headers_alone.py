#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every header compiles alone: headers_alone.py COMPILER BUILD FLAGS LIST

BUILD/LIST.txt lists headers. BUILD/FLAGS.cpp is a source whose command in compile_commands.json is
used for them. With libtorch, the compiler spends five seconds on templates after the last line. Each
header is therefore followed by a deliberate error at which the compiler stops. If the header is
correct, that error is the first one.

Without libtorch, nearly all of the time is spent in headers of the standard library. Sets of them are
precompiled, and a header gets a set only if it includes all of the set, by itself or through other
headers of lockstep. It could therefore compile without the set: an include moves to the front, none
is added.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

MESSAGE = "the end of the header"
# After the last brace: inside a namespace that was left open, ::the_end does not exist.
END = f'int the_end;\nstatic_assert(sizeof(::the_end) == 0, "{MESSAGE}");\n'
# Faults that must be detected, to prove that the check works: a missing header, unknown names.
UNSOUND = ('#include "no/such_header.h"', "Unknown value();", "inline int f() { return unknown(); }",
           "namespace open {", "struct Open {", "std::string text();",
           '#include <string>\nstd::filesystem::path place();')
TAKES_A_VALUE = ("-o", "-c", "-MT", "-MF")
# Seconds that the compiler takes for a header, roughly, and for writing a precompiled set.
EXPENSIVE = {"filesystem": 0.45, "functional": 0.2, "memory": 0.3, "chrono": 0.35, "string": 0.2,
             "map": 0.08, "vector": 0.06, "optional": 0.04, "thread": 0.2, "CLI/CLI.hpp": 1.8,
             "fmt/format.h": 0.6, "nlohmann/json.hpp": 1.5}
PRECOMPILING = 2


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


def certain_includes(text, roots, seen):
    """The names that a text includes in <>, also through our headers, under no condition."""
    names, depth = set(), 0
    for line in text.splitlines():
        depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        found = re.match(r"""\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")""", line)
        if not found or depth:
            continue
        if found[1]:
            names.add(found[1])
            continue
        path = next((root / found[2] for root in roots if (root / found[2]).is_file()), None)
        if path and path not in seen:
            seen.add(path)
            names |= certain_includes(path.read_text(encoding="utf-8"), roots, seen)
    return names


def cost(names):
    return sum(EXPENSIVE[name] for name in names)


def choose_sets(includes):
    """The sets that save more time than it takes to precompile them, the most useful ones first."""
    chosen = []
    best = {text: 0 for text in includes}
    candidates = sorted({frozenset(names) for names in includes.values()}, key=sorted)
    while candidates:
        def gain(names):
            return sum(max(0, cost(names) - best[text])
                       for text, own in includes.items() if names <= own) - PRECOMPILING
        names = max(candidates, key=gain)
        if gain(names) <= 0:
            break
        chosen.append(names)
        best = {text: max(best[text], cost(names) if names <= own else 0)
                for text, own in includes.items()}
    return chosen


def precompile(names, folder, words, directory):
    """Returns the options for the precompiled set, or none if the compiler cannot write it."""
    path = pathlib.Path(folder) / ("-".join(sorted(names)).replace("/", "_") + ".h")
    path.write_text("".join(f"#include <{name}>\n" for name in sorted(names)), encoding="utf-8")
    without_input = [word for word in words[:-3] if word != "-fsyntax-only"]
    result = subprocess.run([*without_input, "-x", "c++-header", str(path), "-o", f"{path}.gch"],
                            cwd=directory, capture_output=True, check=False)
    return ["-include", str(path)] if result.returncode == 0 else []


def options_by_text(texts, words, directory, pool, folder):
    """The options for each text, with the most expensive set that it includes as a whole."""
    roots = [pathlib.Path(directory, word[2:]) for word in words if word.startswith("-I")]
    includes = {text: frozenset(certain_includes(text, roots, set()) & EXPENSIVE.keys())
                for text in texts}
    sets = choose_sets(includes)
    options = dict(zip(sets, pool.map(
        lambda names: precompile(names, folder, words, directory), sets)))
    return {text: options[max((names for names in sets if names <= own), key=cost)]
            if any(names <= own for names in sets) else [] for text, own in includes.items()}


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
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool, \
            tempfile.TemporaryDirectory(dir=build) as folder:
        texts = sound + unsound
        options = ({text: [] for text in texts} if stops_there else
                   options_by_text(texts, words, directory, pool, folder))
        objections = dict(zip(texts, pool.map(
            lambda text: objection(text, words[:1] + options[text] + words[1:], directory,
                                   stops_there), texts)))
    wrong = [objections[text] for text in sound if objections[text]]
    wrong += [f"this fault was not detected: {text}" for text in unsound if not objections[text]]
    print("\n".join(wrong) if wrong else f"{len(sound)} headers compile alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]))

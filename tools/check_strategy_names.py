#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only src/training/strategy/ names strategies, and that nothing else compares with a name.

    tools/check_strategy_names.py [--root DIR]

Code of the training library outside of that folder asks for a property (strategy/properties.h) and takes
names for messages from the same table. Finds names in string literals, such as "ddp" or "omit -s ddp", and
enumerators of StrategyKind. The launcher and the tools name programs and packages such as deepspeed, so only
comparisons of a strategy with a name are found there: they use the properties of contract/strategy_kind.h.
Prints FILE:LINE: REASON for each and exits with 1 if there is any. The test `strategy_names`.
"""

import argparse
import pathlib
import re
import sys

ROOT = "src"
TREE = "src/training/"
HOME = "src/training/strategy/"
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# Files in which a name is not that of a strategy, each with its reason.
ALLOWED = {}

LITERAL = re.compile(r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Not "--deepspeed", "deepspeed_config" or "horovod/options.h": options, keys and paths.
NAME = re.compile(r"(?<![\w./-])(ddp|horovod|deepspeed|mirrored)(?![\w./-])")
KIND = re.compile(r"\bStrategyKind::\w+")
COMPARISON = re.compile(r'strategy\w*\s*[!=]=\s*"(?:ddp|horovod|deepspeed|mirrored)"')
EITHER = re.compile(f"(?P<literal>{LITERAL.pattern})|(?P<comment>{COMMENT.pattern})", re.DOTALL)


def find(name, text):
    """Yields the line number and the offending text of each offence in a file."""
    if name.startswith(HOME) or name in ALLOWED:
        return
    if not name.startswith(TREE):
        for match in COMPARISON.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match.group()
        return
    code = []
    end = 0
    for match in EITHER.finditer(text):
        code.append(text[end:match.start()])
        code.append(re.sub(r"[^\n]", " ", match.group()))
        end = match.end()
        found = NAME.search(match.group("literal") or "")
        if found:
            yield text.count("\n", 0, match.start()) + 1, found.group()
    code.append(text[end:])
    for number, line in enumerate("".join(code).split("\n"), 1):
        found = KIND.search(line)
        if found:
            yield number, found.group()


def main():
    parser = argparse.ArgumentParser(description="Checks that only strategy/ names strategies.")
    parser.add_argument("--root", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    offences = 0
    files = [path for path in sorted((root / ROOT).rglob("*")) if path.suffix in SUFFIXES]
    for path in files:
        name = path.relative_to(root).as_posix()
        for line, what in find(name, path.read_text(encoding="utf-8")):
            offences += 1
            print(f"{name}:{line}: {what}: ask for a property", file=sys.stderr)
    print(f"strategy names: {len(files)} files, {offences} offences")
    return 1 if offences or not files else 0


if __name__ == "__main__":
    sys.exit(main())

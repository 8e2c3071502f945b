#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds discouraged phrases in what people read; part of `make lint`.

    tools/check_language.py [--root DIR]

Reads tools/discouraged.txt. Checks Markdown files, the string literals and comments of C++, CUDA and
TypeScript sources, and scripts, Python and CMake files, all outside tests/. Prints FILE:LINE: 'PHRASE': REASON for each hit and exits with 1 if
there is any. A line that contains `language: allow` is skipped: for texts of other programs that are quoted.
"""

import argparse
import pathlib
import re
import subprocess
import sys

LIST = "tools/discouraged.txt"
CODE = {".h", ".cpp", ".cu", ".cuh", ".ts"}
# Comments begin with #; messages stand in strings of all kinds, so that whole lines are checked.
SCRIPTS = {".sh", ".py", ".cmake"}
SCRIPT_NAMES = {"CMakeLists.txt", "Makefile", "slurm-lab", "run"}
# Historical output of commands, and what is not prose.
SKIPPED = ("tests/", "web/dist/", "web/node_modules/", "docs/glossary.md")
TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
ALLOW = "language: allow"


def read_phrases(path):
    phrases = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        pattern, arrow, reason = text.partition(" => ")
        if not arrow or not reason.strip():
            raise SystemExit(f"{path}:{number}: expected 'REGULAR EXPRESSION => REASON'")
        phrases.append((re.compile(pattern.strip(), re.IGNORECASE), reason.strip()))
    return phrases


def is_script(path):
    return path.suffix in SCRIPTS or path.name in SCRIPT_NAMES


def prose_of(path, text):
    """The text with everything but prose blanked out; offsets stay."""
    if is_script(path):
        return text
    if path.suffix == ".md":
        # Code in a document is checked where it is defined.
        return re.sub(r"```.*?```|`[^`\n]*`", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.DOTALL)
    blank = list(re.sub(r"[^\n]", " ", text))
    for match in TEXT.finditer(text):
        # A literal without a blank is a key or a name, which may be part of a stable interface.
        if match.group()[0] == "/" or re.search(r"\s", match.group()):
            # Names of code in comments are checked where they are declared.
            blank[match.start():match.end()] = re.sub(r"`[^`\n]*`", lambda code: " " * len(code.group()), match.group())
    return "".join(blank)


def find(root, phrases):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                           check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    for name in sorted(set(names)):
        path = root / name
        is_read = path.suffix == ".md" or path.suffix in CODE or is_script(path)
        if not is_read or name.startswith(SKIPPED) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        prose = prose_of(path, text)
        lines = text.splitlines()
        for pattern, reason in phrases:
            for match in pattern.finditer(prose):
                number = prose.count("\n", 0, match.start()) + 1
                if ALLOW not in lines[number - 1]:
                    yield name, number, match.group(), reason


def main():
    parser = argparse.ArgumentParser(description="Finds discouraged phrases in texts that people read.")
    parser.add_argument("--root", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    phrases = read_phrases(root / LIST)
    hits = sorted(find(root, phrases))
    for name, number, phrase, reason in hits:
        print(f"{name}:{number}: '{phrase}': {reason}", file=sys.stderr)
    print(f"language: {len(phrases)} phrases, {len(hits)} hits")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())

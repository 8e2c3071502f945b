#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over all sources in a compile_commands.json, in parallel.

    tools/tidy.py --build DIR [--jobs N]

A clean file is not checked again until it, one of its own headers, .clang-tidy or clang-tidy itself
changes; DIR/tidy-cache records the clean files.

clang-tidy spends nearly all its time in third-party headers. The sources of a folder are therefore
checked together, as one file that includes them. A name in unnamed namespaces of several of these
sources is replaced by a macro in all but one. A group that does not compile is checked again in two
halves.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
BATCH = 16
COMPILER_ERROR = "[clang-diagnostic-error]"
# At the beginning of a line in an unnamed namespace: a type, a constant, a variable or a function.
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
LOCAL_NAME = re.compile(
    r"^(?:template <.*>\s+)?(?:struct|class|enum class|enum|using) (\w+)\b(?!::)"
    r"|^(?!namespace|using)\w[^()={;]*?(\w+)(?=\s*[({=;\[])",
    re.MULTILINE)
NO_FALSE_ALARM = "-bugprone-suspicious-include"  # sources are included on purpose here


def reached(path, seen):
    """The file and all own headers that it includes, directly or not."""
    if path in seen:
        return
    seen.add(path)
    for header in INCLUDE.findall(path.read_text()):
        for root in (ROOT / "src", ROOT / "include", path.parent):
            if (root / header).is_file():
                reached((root / header).resolve(), seen)
                break


def flags_of(entry):
    """The arguments of the compiler without program, input and output."""
    words = shlex.split(entry["command"])[1:]
    drop = {index for index, word in enumerate(words) if word in ("-c", "-o", entry["file"])}
    drop |= {index + 1 for index, word in enumerate(words) if word == "-o"}
    return [word for index, word in enumerate(words) if index not in drop]


class Tidy:
    def __init__(self, build):
        self.build = build
        self.cache = build / "tidy-cache"
        self.cache.mkdir(exist_ok=True)
        version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True)
        self.common = version.stdout + (ROOT / ".clang-tidy").read_bytes()

    def mark_of(self, entry):
        files = set()
        reached(pathlib.Path(entry["file"]), files)
        digest = hashlib.sha256(self.common + entry["command"].encode())
        for path in sorted(files):
            digest.update(path.read_bytes())
        return self.cache / digest.hexdigest()

    def run(self, entries):
        """Findings of these entries, as text; empty if all are clean."""
        done = self.call_together(entries)
        if len(entries) > 1 and COMPILER_ERROR in done.stdout:
            middle = len(entries) // 2
            return self.run(entries[:middle]) + self.run(entries[middle:])
        return self.conclude(entries, done)

    def conclude(self, entries, done):
        if done.returncode != 0:
            return done.stdout or done.stderr
        for entry in entries:
            self.mark_of(entry).touch()
        return ""

    def call_together(self, entries):
        if len(entries) == 1:
            return self.call(entries[0]["file"], flags_of(entries[0]), NO_FALSE_ALARM)
        name = hashlib.sha256(" ".join(entry["file"] for entry in entries).encode()).hexdigest()
        source = self.build / f"tidy-{name[:16]}.cpp"
        source.write_text(joined([entry["file"] for entry in entries]))
        try:
            return self.call(source, flags_of(entries[0]), NO_FALSE_ALARM)
        finally:
            source.unlink()

    @staticmethod
    def call(source, flags, checks):
        return subprocess.run(
            ["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", f"--checks={checks}",
             str(source), "--", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def module_of(source):
    """The folder of a source's module: the nearest one with a CMakeLists.txt."""
    folder = source.parent
    while not (folder / "CMakeLists.txt").exists():
        folder = folder.parent
    return str(folder)


def local_names(path):
    """The names that a source defines in unnamed namespaces."""
    names = set()
    for block in UNNAMED.findall(path.read_text()):
        names.update(name for pair in LOCAL_NAME.findall(block) for name in pair if name)
    return names


def joined(sources):
    """A source that includes all of these, in which no two define the same local name."""
    lines = []
    taken = set()
    for number, source in enumerate(sources):
        names = local_names(pathlib.Path(source))
        repeated = sorted(names & taken)
        taken |= names
        lines += [f"#define {name} {name}{number}  // NOLINT" for name in repeated]
        lines.append(f'#include "{source}"')
        lines += [f"#undef {name}" for name in repeated]
    return "\n".join(lines) + "\n"


def batches_of(entries):
    """Entries of one module with the same flags, in groups of about the same size."""
    def kind(entry):
        return module_of(pathlib.Path(entry["file"])), flags_of(entry)

    for _, same_kind in itertools.groupby(sorted(entries, key=kind), key=kind):
        same_kind = list(same_kind)
        groups = -(-len(same_kind) // BATCH)
        yield from (same_kind[first::groups] for first in range(groups))


def main():
    parser = argparse.ArgumentParser(description="Runs clang-tidy in parallel and caches clean files.")
    parser.add_argument("--build", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    arguments = parser.parse_args()

    tidy = Tidy(arguments.build.resolve())
    entries = json.loads((tidy.build / "compile_commands.json").read_text())
    # Generated sources do not exist yet, and their style does not matter.
    entries = [entry for entry in entries if tidy.build not in pathlib.Path(entry["file"]).parents]
    unknown = [entry for entry in entries if not tidy.mark_of(entry).exists()]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        findings = "".join(pool.map(tidy.run, list(batches_of(unknown))))
    if findings:
        print(findings.rstrip())
    print(f"clang-tidy: {len(entries)} files, {len(entries) - len(unknown)} known to be clean, "
          f"{'findings above' if findings else 'no findings'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command in the `console` blocks of the documentation.

    docs_commands.py SOURCE BUILD

Commands are the lines that begin with `$ `; a line that ends in `\\` continues in the next one. They
run in the order of the page, in a scratch folder that looks like the root of the repository with its
`build/`. A command must exit with 0, or with N if its line ends with a comment `# exits N`.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands_of(page):
    for block in BLOCK.findall(page.read_text()):
        for text in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE):
            expected = re.search(r"#\s*exits (\d+)\s*$", text)
            yield text, int(expected.group(1)) if expected else 0


def make_scratch(folder, source, build):
    for path in source.iterdir():
        if not path.name.startswith((".", "build")) and path.name not in ("data", "runs"):
            (folder / path.name).symlink_to(path)
    (folder / "build").symlink_to(build)


def run_page(page, source, build):
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        make_scratch(pathlib.Path(name), source, build)
        for text, expected in commands_of(page):
            done = subprocess.run(["bash", "-c", text], cwd=name, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=240, check=False)
            right = done.returncode == expected
            print(f"{page.relative_to(source)}: {text}: {'as expected' if right else 'WRONG'}")
            if not right:
                print(f"{done.stdout}exit code {done.returncode}, expected {expected}")
                failures += 1
    return failures


def main():
    source, build = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
    pages = [source / "README.md", source / "CONTRIBUTING.md",
             *sorted(source.glob("docs/**/*.md")), *sorted(source.glob("examples/*/README.md"))]
    return 1 if sum(run_page(page, source, build) for page in pages if page.exists()) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tree obeys tools/layers.txt; the test `layering`.

    tools/check_layers.py [--root DIR]

Prints one line per violation, FILE:LINE: REASON, and exits with 1 if there is any.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

LAYERS_FILE = "tools/layers.txt"
SOURCE_SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh"}
# With a slash, to distinguish folders from modules.
OUTER_RINGS = ("apps/", "examples/", "benchmarks/", "tests/")
FREE_RINGS = ("benchmarks/", "tests/")  # may call the system and read the environment
# The first folder below src/ is the tower; the towers whose modules it may include.
TOWERS = {"common": {"common"}, "launcher": {"common", "launcher"}, "training": {"common", "training"},
          "tools": {"common", "training", "tools"}}
NO_TORCH_TOWERS = ("common", "launcher")
GETENV_HOME = "src/common/os/environment.cpp"
SHIM_FOLDER = "missing_headers"  # replaces headers of libtorch; belongs to no module

MODULE_CALL = re.compile(r"lockstep_module\s*\(([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2|gloo)/")
TORCH_NAME = re.compile(r"(?<![\w:])(torch|c10|c10d|at)\s*::")
PRIVATE_NAMESPACE = re.compile(r"^\s*namespace\s+lockstep::(\w+)", re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)")
QUALIFIER = re.compile(r"(?<![\w:])(?:::\s*)?(?:lockstep\s*::\s*)?(\w+)\s*::")
FORWARD_DECLARATION = re.compile(r"^(?:class|struct)\s+(\w+)\s*;")
DEFINITION = re.compile(r"^(?:class|struct)\s+(\w+)\b[^;{]*\{", re.MULTILINE)
ENVIRONMENT_CALL = re.compile(r"\b(getenv|secure_getenv|setenv|unsetenv|putenv)\s*\(")
SYSTEM_HEADER = re.compile(
    r"^((sys|net|netinet|arpa|linux|asm)/.*"
    r"|(unistd|fcntl|poll|signal|spawn|dirent|netdb|ifaddrs|pthread|dlfcn|sched|pwd|grp|termios"
    r"|syscall|malloc|link|glob|ftw|wait|mqueue|semaphore|execinfo|numa|sysexits|syslog|utime)\.h)$"
)


@dataclasses.dataclass
class Layers:
    """The contents of layers.txt, and where its modules are."""

    towers: dict = dataclasses.field(default_factory=dict)  # module -> tower, from its path
    folders: dict = dataclasses.field(default_factory=dict)  # module -> its folder, such as src/launcher/plan
    allowed: dict = dataclasses.field(default_factory=dict)  # module or ring -> names it may include
    owners: dict = dataclasses.field(default_factory=dict)  # public header -> module
    exceptions: dict = dataclasses.field(default_factory=dict)  # file -> system headers it may use
    lines: dict = dataclasses.field(default_factory=dict)  # (kind, name) -> its line number


class Report:
    def __init__(self):
        self.offences = []

    def add(self, path, line, sentence):
        self.offences.append((str(path), line, sentence))


def read_layers(path, report):
    layers = Layers()
    section = None
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        text = raw.split("#", 1)[0].strip()
        if not text:
            continue
        if text.startswith("["):
            section = text.strip("[]")
            continue
        if ":" not in text or section is None:
            report.add(LAYERS_FILE, number, f"cannot read '{text}'")
            continue
        left, right = (part.strip() for part in text.split(":", 1))
        if section == "modules":
            layers.allowed[left] = right.split()
            layers.lines["module", left] = number
        elif section == "rings":
            layers.allowed[f"{left}/"] = right.split()
        elif section == "owners":
            for header in right.split():
                layers.owners[header] = left
                layers.lines["header", header] = number
        elif section == "exceptions":
            layers.exceptions[left] = right.split()
            layers.lines["exception", left] = number
            if "#" not in raw:
                report.add(LAYERS_FILE, number, f"the exception for {left} does not say why")
        else:
            report.add(LAYERS_FILE, number, f"unknown section [{section}]")
    return layers


def find_modules(root, layers, report):
    """Modules are the folders whose CMakeLists.txt calls lockstep_module(); the name is its argument."""
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        call = MODULE_CALL.search(re.sub(r"#[^\n]*", "", path.read_text()))
        folder = path.parent.relative_to(root)
        if not call:
            report.add(folder / "CMakeLists.txt", 1, "does not call lockstep_module(NAME ...)")
            continue
        name = call.group(1).split()[0]
        tower = folder.parts[1]
        if tower not in TOWERS:
            report.add(folder, 1, f"'{tower}' is not a tower; use {', '.join(TOWERS)}")
        elif name in layers.folders:
            report.add(folder, 1, f"{layers.folders[name]} already uses the module name '{name}'")
        elif ("module", name) not in layers.lines:
            report.add(folder, 1, f"layers.txt does not list the module '{name}'")
        else:
            layers.folders[name] = folder
            layers.towers[name] = tower
    for kind, name in list(layers.lines):
        if kind == "module" and name not in layers.folders:
            report.add(LAYERS_FILE, layers.lines[kind, name], f"no folder below src/ defines the module '{name}'")


def check_table(layers, report):
    """The table by itself: known names, separate towers, no cycle."""
    for module, tower in layers.towers.items():
        line = layers.lines["module", module]
        for name in layers.allowed[module]:
            if name not in layers.towers:
                report.add(LAYERS_FILE, line, f"{module} lists '{name}', which is not a module")
            elif layers.towers[name] not in TOWERS[tower]:
                report.add(LAYERS_FILE, line, f"{module} ({tower}) must not include {name} "
                                       f"({layers.towers[name]})")
    cycle = find_cycle(layers)
    if cycle:
        report.add(LAYERS_FILE, layers.lines["module", cycle[0]], "the table has a cycle: " + " -> ".join(cycle))
    for header, owner in layers.owners.items():
        if owner not in layers.towers:
            report.add(LAYERS_FILE, layers.lines["header", header], f"the owner '{owner}' is not a module")


def find_cycle(layers):
    done = set()

    def walk(module, trail):
        if module in trail:
            return trail[trail.index(module):] + [module]
        if module in done:
            return None
        done.add(module)
        for name in layers.allowed.get(module, []):
            if name in layers.towers:
                cycle = walk(name, trail + [module])
                if cycle:
                    return cycle
        return None

    for module in layers.towers:
        cycle = walk(module, [])
        if cycle:
            return cycle
    return None


def stands_on(layers, upper, lower, seen=None):
    """Whether the module `upper` reaches `lower` along the table."""
    seen = set() if seen is None else seen
    for name in layers.allowed.get(upper, []):
        if name == lower:
            return True
        if name not in seen:
            seen.add(name)
            if stands_on(layers, name, lower, seen):
                return True
    return False


def without_comments_and_strings(text):
    """The text with comments and literals blanked out; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


class TreeCheck:
    """Walks the sources of one tree."""

    def __init__(self, root, layers, report):
        self.root = root
        self.layers = layers
        self.report = report
        self.files = 0
        self.includes = 0
        self.private_namespaces = self.find_all(PRIVATE_NAMESPACE, "src")
        self.public_types = self.find_all(DEFINITION, "include")

    def run(self):
        for path in self.sources("src"):
            module = self.module_of(path)
            if module is None:
                self.report.add(self.name(path), 1, "is not in a folder of a module")
            else:
                self.check_file(path, module, is_public=False)
        for path in self.sources("include"):
            owner = self.layers.owners.get(path.stem)
            if owner is None:
                self.report.add(self.name(path), 1, "this public header has no owner in layers.txt")
            else:
                self.check_file(path, owner, is_public=True)
        for ring in OUTER_RINGS:
            for path in self.sources(ring):
                self.check_file(path, ring, is_public=False)
        self.check_modules()

    def sources(self, folder):
        found = (path for path in (self.root / folder).rglob("*")
                 if path.suffix in SOURCE_SUFFIXES and SHIM_FOLDER not in path.parts)
        return sorted(found)

    def find_all(self, pattern, folder):
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in self.sources(folder))
        return {name for text in texts for name in pattern.findall(text)}

    def name(self, path):
        return path.relative_to(self.root)

    def module_of(self, path):
        """The module of the nearest enclosing folder that is one."""
        folder = self.name(path).parent
        while folder.parts:
            for module, home in self.layers.folders.items():
                if home == folder:
                    return module
            folder = folder.parent
        return None

    def check_file(self, path, home, is_public):
        self.files += 1
        text = path.read_text(encoding="utf-8", errors="replace")
        headers = []
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                headers.append(match.group(2))
                self.check_include(path, number, home, is_public, match.group(1), match.group(2))
        self.includes += len(headers)
        if path.suffix == ".cpp" and home in self.layers.towers:
            self.check_own_header(path, home, headers)
        code = without_comments_and_strings(text)
        self.check_words(path, home, code)
        if is_public:
            self.check_public(path, code)

    def check_include(self, path, number, home, is_public, bracket, header):
        def offend(sentence):
            self.report.add(self.name(path), number, sentence)

        first, _, rest = header.partition("/")
        allowed = self.layers.allowed.get(home, [])
        source = self.root / "src" / header
        if first == "lockstep" and rest:
            owner = self.layers.owners.get(pathlib.PurePath(rest).stem)
            if owner is None:
                offend(f"{header} has no owner in layers.txt")
            elif home not in OUTER_RINGS:
                self.check_edge(offend, home, owner, header)
            elif home == "apps/" and owner not in allowed and not self.below_any(allowed, owner):
                offend(f"apps must not include {header}, which belongs to {owner}")
        elif first in TOWERS and source.exists():
            target = self.module_of(source)
            if is_public:
                offend(f"a public header must not include {header} of src/")
            elif home in OUTER_RINGS:
                if "ANY" not in allowed and target not in allowed:
                    offend(f"{home.rstrip('/')} must not include {header}; allowed: "
                           f"{' '.join(allowed).replace('PUBLIC', 'public headers')}")
            else:
                self.check_edge(offend, home, target, header)
        elif bracket == '"' and home not in OUTER_RINGS:
            offend(f'"{header}" is not a path from the root of src/ or include/')
        elif is_public and not header.startswith("torch/") and re.search(r"[/.]", header):
            # Headers of the standard library have neither a slash nor a suffix.
            offend(f"a public header must not include <{header}>; allowed: public headers, the standard library "
                   "and <torch/...>")
        elif bracket == "<":
            self.check_foreign(offend, path, home, header)

    def check_own_header(self, path, home, headers):
        """A source includes its own header first, so the build proves that the header is self-contained."""
        own = [str(self.name(path.with_suffix(".h")).relative_to("src"))]
        if not path.with_suffix(".h").exists():
            own = [f"lockstep/{path.stem}.h"]
            if self.layers.owners.get(path.stem) != home:
                return
        if headers[:1] != own:
            self.report.add(self.name(path), 1, f"does not include its own {own[0]} first")

    def below_any(self, uppers, lower):
        return any(stands_on(self.layers, upper, lower) for upper in uppers)

    def check_edge(self, offend, home, target, header):
        if target == home or target in self.layers.allowed.get(home, []):
            return
        towers = (self.layers.towers[home], self.layers.towers[target])
        if stands_on(self.layers, target, home):
            offend(f"{header} goes up: {target} depends on {home}")
        elif towers[1] not in TOWERS[towers[0]]:
            offend(f"{header} belongs to another tower: {home} is {towers[0]}, {target} is {towers[1]}")
        else:
            offend(f"{home} must not include {header}: layers.txt does not list {target} for {home}")

    def check_foreign(self, offend, path, home, header):
        if self.tower_has_no_torch(home) and TORCH_HEADER.match(header):
            offend(f"<{header}> belongs to libtorch, which {home.rstrip('/')} must not use")
        if home in FREE_RINGS or home == "os" or not SYSTEM_HEADER.match(header):
            return
        if header not in self.layers.exceptions.get(str(self.name(path)), []):
            offend(f"<{header}> belongs in os/ (or in [exceptions] of layers.txt, with its reason)")

    def tower_has_no_torch(self, home):
        return home == "apps/" or self.layers.towers.get(home) in NO_TORCH_TOWERS

    def check_words(self, path, home, code):
        for number, line in enumerate(code.splitlines(), 1):
            if self.tower_has_no_torch(home):
                match = TORCH_NAME.search(line)
                if match:
                    self.report.add(self.name(path), number,
                                    f"{match.group(1)}:: belongs to libtorch, which {home.rstrip('/')} must not "
                                    "use")
            match = ENVIRONMENT_CALL.search(line)
            if match and home not in FREE_RINGS and str(self.name(path)) != GETENV_HOME:
                self.report.add(self.name(path), number,
                                f"{match.group(1)} is allowed in {GETENV_HOME} only")

    def check_public(self, path, code):
        """A public header names no type of src/, so a client needs no knowledge of it."""
        for number, line in enumerate(code.splitlines(), 1):
            def offend(sentence, at=number):
                self.report.add(self.name(path), at, f"a public header must not {sentence}")

            match = NAMESPACE.search(line)
            if match and match.group(1) != "lockstep":
                offend(f"declare the namespace {match.group(1)}")
            for name in QUALIFIER.findall(line):
                if name in self.private_namespaces:
                    offend(f"name {name}::, a namespace of src/")
            match = FORWARD_DECLARATION.match(line)
            if match and match.group(1) not in self.public_types:
                offend(f"declare {match.group(1)}, which no public header defines")

    def check_modules(self):
        """Each module's CMakeLists.txt against the table, and entries of the table without a file."""
        for module in sorted(self.layers.folders):
            self.check_cmake(module)
        for header, owner in sorted(self.layers.owners.items()):
            if not (self.root / "include/lockstep" / f"{header}.h").exists():
                self.report.add(LAYERS_FILE, self.layers.lines["header", header],
                                f"{owner} owns lockstep/{header}.h, which does not exist")
        for name in self.layers.exceptions:
            if not (self.root / name).exists():
                self.report.add(LAYERS_FILE, self.layers.lines["exception", name],
                                f"the exception is for {name}, which does not exist")

    def check_cmake(self, module):
        folder = self.root / self.layers.folders[module]
        path = folder / "CMakeLists.txt"
        text = re.sub(r"#[^\n]*", "", path.read_text())
        call = MODULE_CALL.search(text)
        line = text[:call.start()].count("\n") + 1
        lists = {"": []}
        key = ""
        for word in call.group(1).split()[1:]:
            if word in ("SOURCES", "ALONE", "PLAIN", "DEPS", "LIBS", "TORCH"):
                key = word
                lists[key] = []
            else:
                lists[key].append(word)
        deps, allowed = lists.get("DEPS", []), self.layers.allowed[module]
        if set(deps) != set(allowed):
            self.report.add(self.name(path), line,
                            f"DEPS are '{' '.join(deps)}', layers.txt says '{' '.join(allowed)}'")
        if "TORCH" in lists and self.tower_has_no_torch(module):
            self.report.add(self.name(path), line, f"TORCH, which {module} must not use")
        words = set(re.findall(r"[\w./]+", text))
        for source in self.sources(folder):
            relative = str(source.relative_to(folder))
            if (source.suffix in (".cpp", ".cc", ".cu") and self.module_of(source) == module
                    and relative not in words):
                self.report.add(self.name(path), line, f"does not list {relative}")


def check(root):
    report = Report()
    layers = read_layers(root / LAYERS_FILE, report)
    find_modules(root, layers, report)
    if not report.offences:
        check_table(layers, report)
    tree = TreeCheck(root, layers, report)
    if not report.offences:
        tree.run()
    return tree, report.offences


def main():
    parser = argparse.ArgumentParser(description="Checks the tree against tools/layers.txt.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent, metavar="DIR")
    tree, offences = check(parser.parse_args().root.resolve())
    for path, line, sentence in offences:
        print(f"{path}:{line}: {sentence}", file=sys.stderr)
    print(f"layering: {tree.files} files, {tree.includes} includes, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())

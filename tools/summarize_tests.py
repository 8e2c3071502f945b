#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases that ctest ran and prints why some were skipped.

    tools/summarize_tests.py RESULTS

RESULTS contains ctest.xml, written by ctest, and NAME.xml for every test NAME that is a whole
GoogleTest binary. Failed tests are printed again with their output, at the end, where a reader of a
long log looks first. The last line is `N passed, N failed, N skipped`.
"""

import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree as ElementTree


def reason_in_output(text):
    """Why a test was skipped, from its output: the reason of GoogleTest, else the last line."""
    match = re.search(r": Skipped\n(.*?)\n\s*\n?\[  SKIPPED", text, re.DOTALL)
    lines = (match.group(1) if match else text).strip().splitlines() or ["no reason given"]
    return " ".join(lines) if match else lines[-1]


def end_of_output(text, most=40):
    """The last lines of the output of a failed test."""
    lines = text.rstrip().splitlines()
    cut = ["..."] if len(lines) > most else []
    return "\n".join(cut + lines[-most:])


def cases_of_binary(path):
    """(name, outcome, reason) of each case in one GoogleTest report."""
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failures = [failure.text or "" for failure in case.iter("failure")]
        if failures:
            yield name, "failed", end_of_output("\n".join(failures))
        elif skipped is not None:
            lines = (skipped.get("message") or "no reason given").strip().splitlines()
            has_place = len(lines) > 1 and re.search(r":\d+$", lines[0])
            yield name, "skipped", " ".join(lines[1:] if has_place else lines)
        elif case.get("status") == "notrun":
            yield name, "skipped", "disabled"
        else:
            yield name, "passed", ""


def asked_to_be_skipped(test):
    """Whether the test skipped itself; a test that could not be started has failed."""
    skipped = test.find("skipped")
    return skipped is not None and (skipped.get("message") or "").startswith("SKIP_")


def outcomes(results):
    for test in ElementTree.parse(results / "ctest.xml").iter("testcase"):
        name, status = test.get("name"), test.get("status")
        output = test.findtext("system-out") or ""
        report = results / f"{name}.xml"
        if report.exists():
            cases = list(cases_of_binary(report))
            yield from cases
            if status == "fail" and not any(outcome == "failed" for _, outcome, _ in cases):
                yield f"{name} (the process itself)", "failed", end_of_output(output)
        elif status == "run":
            yield name, "passed", ""
        elif status == "fail":
            yield name, "failed", end_of_output(output)
        elif status == "disabled":
            yield name, "skipped", "disabled"
        elif asked_to_be_skipped(test):
            yield name, "skipped", reason_in_output(output)
        else:
            yield name, "failed", end_of_output(output)


def main():
    found = list(outcomes(pathlib.Path(sys.argv[1])))
    skipped = [(name, reason) for name, outcome, reason in found if outcome == "skipped"]
    failed = [(name, reason) for name, outcome, reason in found if outcome == "failed"]
    if skipped:
        print("\nSkipped:")
        for name, reason in sorted(skipped):
            print(f"  {name}: {reason}")
    if failed:
        print("\nFailed:")
        for name, reason in sorted(failed):
            print(f"  {name}")
            print(textwrap.indent(reason, "    "))
    passed = len(found) - len(skipped) - len(failed)
    print(f"\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

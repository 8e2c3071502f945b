# SPDX-License-Identifier: Apache-2.0
"""Finds the Python interpreter with torch for the benchmarks, which may run under another one."""
import os
import subprocess
import sys

FIND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "find_python.sh")


def find_python():
    """Returns the interpreter, or exits with the message of tools/find_python.sh."""
    found = subprocess.run([FIND, "torch"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        sys.exit(found.returncode)
    return found.stdout.strip()

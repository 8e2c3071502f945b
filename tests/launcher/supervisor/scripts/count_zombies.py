#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker whose grandchildren outlive their parents, so that the agent inherits them.

Waits until the agent has reaped them, which removes them from /proc, and prints how many it has not
reaped after a minute.
"""
import os
import subprocess
import time

LIMIT = 60  # s
orphans = [int(subprocess.check_output(["sh", "-c", "sleep 0.1 >&- & echo $!"])) for _ in range(3)]
end = time.monotonic() + LIMIT
while orphans and time.monotonic() < end:
    time.sleep(0.01)
    orphans = [pid for pid in orphans if os.path.exists(f"/proc/{pid}")]
print("zombies:", len(orphans))

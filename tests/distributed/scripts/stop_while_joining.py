#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends a worker with SIGTERM while it waits for the others: stop_while_joining.py COMMAND...

Starts COMMAND as rank 1 of 2, and listens on the port of the rendezvous, as rank 0 does, but never
answers. A connection to that port is the event that shows that the worker is waiting. Exits as the
worker does, in the convention of the shell.
"""
import os
import signal
import socket
import subprocess
import sys

LIMIT = 60  # s, for a busy machine; the worker itself would wait much longer

with socket.create_server(("127.0.0.1", 0)) as rendezvous:
    rendezvous.settimeout(LIMIT)
    worker = subprocess.Popen(sys.argv[1:], env={
        **os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(rendezvous.getsockname()[1])})
    try:
        connection, _ = rendezvous.accept()
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(LIMIT)
    finally:
        worker.kill()
sys.exit(code if code >= 0 else 128 - code)

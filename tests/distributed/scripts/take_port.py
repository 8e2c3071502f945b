#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command while its port is in use: take_port.py COMMAND...

Replaces the word PORT in the command by a port on which this process listens.
"""
import socket
import subprocess
import sys

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = str(listener.getsockname()[1])
    sys.exit(subprocess.call([port if word == "PORT" else word for word in sys.argv[1:]]))

"""`python fork_client.py WORDS...` does what `python WORDS...` does, in a fork of `tests.helpers.forks.serve`."""

import json
import os
import socket
import sys

words, address = sys.argv[1:], os.environ.get("FORK_SERVER")
if address is None or not words or (words[0].startswith("-") and words[0] != "-m"):
    os.execv(sys.executable, [sys.executable, *words])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(address)
    socket.send_fds(connection, [json.dumps([words, dict(os.environ), os.getcwd()]).encode()], [0, 1, 2])
    status = int(connection.recv(16) or b"1")
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)

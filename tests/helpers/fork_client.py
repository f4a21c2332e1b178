"""`python fork_client.py WORDS...` does what `python WORDS...` does, in a fork of `tests.helpers.forks.serve`.

In the session of the server the fork joins the process group of this process. It gets the signals to the group itself
then, so this process ignores them.
"""

import json
import os
import signal
import socket
import sys

words, address = sys.argv[1:], os.environ.get("FORK_SERVER")
if address is None or not words or (words[0].startswith("-") and words[0] != "-m"):
    os.execv(sys.executable, [sys.executable, *words])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(address)
    group = os.getpgrp() if os.getsid(0) == int(os.environ["FORK_SESSION"]) else None
    message = json.dumps([words, dict(os.environ), os.getcwd(), group]).encode()
    socket.send_fds(connection, [message], [0, 1, 2])
    if group:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    connection.recv(16)  # its process ID
    status = int(connection.recv(16) or b"1")
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)

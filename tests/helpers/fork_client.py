"""`python fork_client.py WORDS...` does what `python WORDS...` does, in a fork of `tests.helpers.forks.serve`.

In the session of the server the fork joins the process group of this process. It gets the signals to the group itself
then, so this process ignores them; one that comes before ends this process, and with it the fork. Importing socket,
signal and json would take longer than all it does.
"""

import _signal
import _socket
import os
import sys

words, address = sys.argv[1:], os.environ.get("FORK_SERVER")
if address is None or not words or (words[0].startswith("-") and words[0] != "-m"):
    os.execv(sys.executable, [sys.executable, *words])
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
connection.connect(address)
group = os.getpgrp() if os.getsid(0) == int(os.environ["FORK_SESSION"]) else -1
variables = (f"{name}={value}" for name, value in os.environ.items())
message = "\0".join([os.getcwd(), str(group), str(len(words)), *words, *variables])
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
connection.sendmsg([os.fsencode(message)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.recv(16)  # its process ID
if group != -1:
    for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
status = int(connection.recv(16) or b"1")
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)

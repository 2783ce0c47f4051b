"""A port for the API: the one that was asked for, or the next free one."""

from __future__ import annotations

import errno
import socket

_TRIES = 100


def free_port(host: str, first: int) -> int:
    """The first port from `first` on that can be listened on at `host`.

    Raises:
        OSError: none of the next hundred is free, or `host` is no address of this machine.
    """
    family, _, _, _, address = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)[0]
    for port in range(first, min(first + _TRIES, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: a port whose last connections are still closing counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address[0], port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
            return port
    raise OSError(f"no free port at {host} from {first} on")

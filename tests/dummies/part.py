"""A harmless part for tests of supervision: says that it is ready, then waits for SIGTERM.

`--order FILE`: append the name to FILE when SIGTERM comes, then end.
`--stubborn`: ignore SIGTERM, and start a child that ignores it too; its number goes to FILE.child.
`--guarded`: start a guard, as a GPU worker does.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from db.guard import start_guard
from db.processes import Identity
from db.readiness import READY, announce

STUBBORN_CHILD = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--guarded", action="store_true")
    given = parser.parse_args()
    if given.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", STUBBORN_CHILD], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()  # it ignores SIGTERM from here on
        given.order.with_suffix(".child").write_text(str(child.pid))
    else:

        def end(*_: object) -> None:
            with given.order.open("a") as file:
                file.write(f"{given.name}\n")
            raise SystemExit

        signal.signal(signal.SIGTERM, end)
    if given.guarded:
        me = Identity.of_this_process()
        start_guard(me, sessions=[me])
    announce(READY, os.environ)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()

"""`python -m migrations upgrade|downgrade|current`, against DATABASE_URL."""

from __future__ import annotations

import argparse
import os
import sys

from migrations.run import current, downgrade, head, upgrade


def main() -> int:
    parser = argparse.ArgumentParser(prog="migrations", description=__doc__)
    parser.add_argument("command", choices=("upgrade", "downgrade", "current"))
    command = parser.parse_args().command
    url = os.environ.get("DATABASE_URL")
    if not url:
        print("DATABASE_URL is not set: name the database to migrate", file=sys.stderr)
        return 2
    if command == "upgrade":
        upgrade(url)
    elif command == "downgrade":
        downgrade(url)
    print(f"{current(url) or 'empty'} (head {head()})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

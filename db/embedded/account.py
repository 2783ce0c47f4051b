"""The account that PostgreSQL runs under: it refuses to run as root."""

from __future__ import annotations

import os
import pwd

from db.embedded.errors import EmbeddedError
from db.processes import Account

_UNPRIVILEGED = "nobody"  # exists on every Unix, also in bare container images


def postgres_account() -> Account | None:
    """`nobody` when we are root; None when PostgreSQL can run under our own account.

    Raises:
        EmbeddedError: we are root and there is no such account.
    """
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise EmbeddedError(
            f"PostgreSQL cannot run as root, and this machine has no account {_UNPRIVILEGED!r}; "
            "start Fairlane as another user, or set DATABASE_URL and REDIS_URL"
        ) from None
    return Account(found.pw_name, found.pw_uid, found.pw_gid)

"""Set-up before anything is installed: `python3 -m bootstrap`, standard library only.

It checks the machine, says what it will download, makes `.venv`, installs into it and prepares
the demo model. Everything else in this repository runs inside that `.venv`.
"""

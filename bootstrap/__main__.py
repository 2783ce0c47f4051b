"""`python3 -m bootstrap [--engine vllm|simulated] [--dev]`: make this repository ready to run.

Repeating it costs a fraction of a second and no network. Ended at any point, it goes on from
there the next time. Too old a Python must be able to read this file and checks.py.
"""

from __future__ import annotations

import argparse
import os
import sys

from bootstrap import checks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bootstrap", description="Make .venv ready to run.")
    parser.add_argument("--engine", choices=("vllm", "simulated"), default="vllm")
    parser.add_argument("--dev", action="store_true", help="also the tools that `make test` needs")
    arguments = parser.parse_args()
    problem = checks.python_problem(sys.version_info[:3])
    if problem:
        print(problem, file=sys.stderr)
        return 2
    from bootstrap.setup import SetupError, set_up  # noqa: PLC0415 - an old Python cannot read it

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        set_up(root, vllm=arguments.engine == "vllm", tools=arguments.dev)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

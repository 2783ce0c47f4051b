"""`python -m bench NAME [--quick|--full]`, or `--all`, which also writes bench/RESULTS.md.

The last line on standard output is one JSON object; how the run goes is told on standard error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from bench.facts import ROOT, facts
from bench.result import Bar, Result

BENCHES = (
    "p2_throughput", "p0_under_load", "coserving", "step_simulator",
    "claim_latency", "held_xmin", "recovery", "token_shares", "fairness_cost",
    "deadlines",
)  # fmt: skip
RESULTS = ROOT / "bench" / "RESULTS.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=BENCHES, help="the bench to run")
    parser.add_argument("--all", action="store_true", help=f"run every bench and write {RESULTS.name}")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", dest="scale", action="store_const", const="quick", help="at most 5 minutes")
    scale.add_argument("--full", dest="scale", action="store_const", const="full", help="more samples")
    parser.set_defaults(scale="quick")
    options = parser.parse_args()
    if options.all == (options.name is not None):
        parser.error("give either the name of one bench or --all")
    sections = []
    for name in BENCHES if options.all else (options.name,):
        module = importlib.import_module(f"bench.{name}")
        known = facts(options.scale)
        result: Result = module.run(options.scale)
        sections.append(_section(result, module.BARS, known))
        print(result.as_json(known), flush=True)
    if options.all:
        RESULTS.write_text("\n".join([_HEAD, *sections]))
        print(f"wrote {RESULTS}", file=sys.stderr)
    return 0


_HEAD = """# Results

Written by `make bench` (`python -m bench --all`). A figure that falls short stands here like any other.
"""


def _section(result: Result, bars: dict[str, Bar], known: dict[str, Any]) -> str:
    """One bench as Markdown: its figures against their bars, the spread, the facts."""
    lines = [f"## {result.bench}", "", "| key | measured | bar | stretch | |", "|---|---|---|---|---|"]
    for key, value in result.figures.items():
        bar = bars[key]
        verdict = "meets the bar" if bar.met_by(value) else "falls short"
        lines.append(f"| {key} | {value} | {bar.bar} | {bar.stretch} | {verdict} |")
    lines += ["", "| series | n | min | median | max |", "|---|---|---|---|---|"]
    for series, spread in result.spread.items():
        lines.append(f"| {series} | {spread['n']} | {spread['min']} | {spread['median']} | {spread['max']} |")
    lines += ["", "```json", json.dumps({**known, **result.about}, indent=2), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

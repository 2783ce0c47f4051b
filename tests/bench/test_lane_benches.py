"""The lane benches' own sums: what each figure is made of, and that it is the worst of its settings."""

from __future__ import annotations

from math import inf
from pathlib import Path
from uuid import UUID

import pytest

from bench import claim_latency, deadlines, fairness_cost, held_xmin, plan_switch, recovery, token_shares
from bench.sample import Sample
from db.settings import DEMO_MODEL
from lanes.batch import completion_window
from lanes.jsonl import Line
from lanes.line import LineRules, ValidLine, check_line
from lanes.plan import FlowAccount, Snapshot, plan
from lanes.policy import DEFAULT
from lanes.sim.queue_values import SimJob


def setting(tenants: int, fair_long: float, bare_short: float = 1.0) -> claim_latency.Setting:
    millis = {
        "fair_short": [2.0] * 100,
        "fair_long": [fair_long] * 95 + [9.0] * 5,
        "bare_short": [bare_short] * 100,
        "bare_long": [fair_long] * 100,
    }
    return claim_latency.Setting(tenants, 1, millis)


def test_claim_latency_takes_the_worst_setting() -> None:
    size = claim_latency.SCALES["quick"]
    result = claim_latency.summary([setting(1, 2.0), setting(2, 3.0), setting(3, 2.0, bare_short=0.5)], size)
    assert result.figures == {"p50_ratio": 1.5, "p99_ratio": 4.5, "over_bare": 4.0}
    assert set(result.figures) == set(claim_latency.BARS)


def test_held_xmin_takes_the_worst_setting_and_means_rates_by_their_times() -> None:
    assert held_xmin.harmonic([10.0, 30.0]) == pytest.approx(15.0)
    settings = [
        held_xmin.Setting(10, [10.0, 30.0], [20.0, 20.0], 40, {}),
        held_xmin.Setting(1_000, [20.0], [20.0], 20, {}),
    ]
    result = held_xmin.summary(settings, held_xmin.SCALES["quick"])
    assert result.figures == {"ratio": 0.75}


def test_recovery_is_in_leases_and_sweeps() -> None:
    half = recovery.Recovery(lease=recovery.LEASE_AND_SWEEP_SECONDS / 2 - 2, sweep=1.5, claim=0.5)
    result = recovery.summary([half] * 40 + [recovery.Recovery(90, 5, 4)], recovery.Scale(41))
    assert result.figures == {"p95_leases": 0.5}
    assert recovery.LEASE_AND_SWEEP_SECONDS - DEFAULT.lease_seconds == 2.0, "the sweep's interval"


def served(*cost: float) -> token_shares.Served:
    return token_shares.Served(cost, [1] * 4, [1] * 4)


def test_token_shares_takes_the_greatest_error_of_the_worse_engine() -> None:
    assert served(1, 2, 4, 8).error == pytest.approx(0)
    assert served(2, 2, 4, 7).error == pytest.approx(1 / 15)
    size = token_shares.SCALES["quick"]
    result = token_shares.summary({"simulated": served(2, 2, 4, 7), "real": served(1, 2, 4, 8)}, size)
    assert result.figures == {"max_error": 0.0667}


@pytest.mark.parametrize("fields", [token_shares.EXACT, token_shares.OVER_ASKED])
def test_the_lines_of_token_shares_are_valid(fields: dict[str, object]) -> None:
    window = completion_window("24h")
    assert window is not None
    rules = LineRules("/v1/chat/completions", frozenset({DEMO_MODEL}), window, DEFAULT)
    lines = token_shares.batch_file(1_400, fields).splitlines()
    checked = [check_line(Line(number, line), rules) for number, line in enumerate(lines, 1)]
    assert len({line.custom_id for line in checked}) == 1_400
    assert all(isinstance(line, ValidLine) for line in checked)


def test_fairness_cost_alternates_which_plan_is_first() -> None:
    assert fairness_cost.order(3) == ["fair", "fifo", "fifo", "fair", "fair", "fifo"]
    samples = {"fair": [Sample(99, 1.0)], "fifo": [Sample(100, 1.0)]}
    result = fairness_cost.summary(samples, fairness_cost.SCALES["quick"], ["--x"])
    assert result.figures == {"ratio": 0.99}
    for scale in fairness_cost.SCALES.values():  # no question twice
        assert 2 * scale.pairs * scale.lines + 16 <= 1_319


def flow(number: int, vtime: float, jobs: int | None) -> FlowAccount:
    return FlowAccount(UUID(int=number), UUID(int=number), vtime, 1.0, vtime, 100.0, 0, inf, jobs)


def test_the_plan_in_order_of_arrival_takes_the_oldest_batch_whole() -> None:
    snapshot = Snapshot(10, [flow(3, 0.0, None), flow(1, 900.0, 4), flow(2, 500.0, 3)])
    takes = plan_switch.fifo_plan(snapshot, DEFAULT)
    assert [(take.flow_id.int, take.jobs) for take in takes] == [(1, 4), (2, 3), (3, 3)]
    fair = plan(snapshot, DEFAULT)
    assert sum(take.jobs for take in fair) == sum(take.jobs for take in takes) == 10, "the same width"


def test_the_plan_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / "plan"
    choose = plan_switch.switched(file)
    snapshot = Snapshot(1, [flow(2, 0.0, 5), flow(1, 900.0, 5)])
    file.write_text(plan_switch.FAIR)
    assert choose(snapshot, DEFAULT)[0].flow_id.int == 2
    file.write_text(plan_switch.FIFO)
    assert choose(snapshot, DEFAULT)[0].flow_id.int == 1


def test_deadlines_takes_the_worst_setting_and_its_judge_knows_the_seats() -> None:
    settings = [
        deadlines.Setting("conv", 0.8, 10, 1, met=1.0, false_rejections=0.5, goodput=1.0),
        deadlines.Setting("code", 1.5, 10, 4, met=0.9, false_rejections=0.0, goodput=0.8),
    ]
    result = deadlines.summary(settings, deadlines.SCALES["quick"])
    assert result.figures == {"met": 0.9, "false_rejections": 0.5, "goodput": 0.8}
    assert set(result.figures) == set(deadlines.BARS)
    # 50 outputs take a second: each seat ends one of them by the deadline, and no second one
    seats = deadlines.SHAPE.seats
    jobs = [
        SimJob(UUID(int=number), UUID(int=1), UUID(int=1), 0.0, 1, 50, deadline=1.5)
        for number in range(2 * seats)
    ]
    assert deadlines.clairvoyant(jobs, frozenset()) == seats

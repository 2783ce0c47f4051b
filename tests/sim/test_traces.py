"""The traces are read whole, from the repository, and say what their publishers say."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import mean, median

import pytest

from bench import traces
from lanes.policy import DEFAULT
from lanes.sim.queue_run import run_queue
from lanes.sim.queue_values import QueueShape
from tests.sim.workload import batch, tenant


@pytest.mark.parametrize(
    ("requests", "count", "seconds", "inputs", "outputs"),
    [
        (lambda: traces.azure("conv"), 19_366, 3_502, (1155, 1020), (211, 129)),
        (lambda: traces.azure("code"), 8_819, 3_436, (2048, 1469), (28, 13)),
        (lambda: traces.mooncake("conversation"), 12_031, 3_537, (12035, 6909), (343, 350)),
        (lambda: traces.mooncake("synthetic"), 3_993, 1_022, (15325, 11587), (149, 69)),
    ],
    ids=["azure conv", "azure code", "mooncake conversation", "mooncake synthetic"],
)
def test_a_trace_has_its_published_figures(requests, count, seconds, inputs, outputs) -> None:  # type: ignore[no-untyped-def]  # a table of figures, read by eye
    read = requests()

    assert len(read) == count
    assert read[0].arrival == 0.0
    assert all(one.arrival <= other.arrival for one, other in pairwise(read))
    assert read[-1].arrival == pytest.approx(seconds, abs=1)
    assert mean(each.input_tokens for each in read) == pytest.approx(inputs[0], abs=1)
    assert median(each.input_tokens for each in read) == pytest.approx(inputs[1], abs=1)
    assert mean(each.output_tokens for each in read) == pytest.approx(outputs[0], abs=1)
    assert median(each.output_tokens for each in read) == pytest.approx(outputs[1], abs=1)


def test_servegen_has_twenty_clients_of_fourteen_days() -> None:
    clients = list(traces.servegen())

    assert len(clients) == 20
    assert {len(client.rates) for client in clients} == {2_016}
    client = next(client for client in clients if client.number == 27)
    assert client.rate(0.0) == pytest.approx(88.06)
    drawn = [client.lengths(100.0, Random(n).random) for n in range(50)]
    assert {lengths[0] for lengths in drawn if lengths} <= {50, 51, 52, 53, 54}
    assert {lengths[1] for lengths in drawn if lengths} <= {2, 3, 4, 5}


def test_a_trace_runs_through_the_simulated_queue() -> None:
    """The first minutes of two services as two tenants: everything ends, and in time."""
    chat, code = traces.azure("conv")[:1_500], traces.azure("code")[:500]
    jobs = [
        job
        for number, requests in enumerate((chat, code))
        for each in requests
        for job in batch(
            1,
            of=number,
            at=each.arrival,
            inputs=each.input_tokens,
            outputs=each.output_tokens,
            deadline=900.0,
        )
    ]  # fmt: skip

    run = run_queue(jobs, QueueShape(workers=2, seats=32, ahead=16), DEFAULT, Random(1).random)

    assert len(run.ends) == 2_000
    assert {end.state.value for end in run.ends} == {"succeeded"}
    assert {end.job.tenant_id for end in run.ends} == {tenant(0), tenant(1)}

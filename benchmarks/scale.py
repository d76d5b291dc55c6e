"""Cost as work grows: time of the optimization stages and memory of a job, by size."""

import json
import subprocess
import sys

SIZES = {
    "realizations": [100, 1_000, 10_000, 100_000],
    "users": [100, 300, 1_000, 3_000, 10_000],
    "cells": [7, 19, 37, 61, 91, 127],
    "resource blocks": [5, 10, 20, 50],
}
JOINT = ("cells", "resource blocks")  # by which the scheduler of all cells is measured, too
SHARD = 100  # realizations of a job
JOB = """
import json, resource, sys, time
from pwfl import scenario
from pwfl.execution.stage import Task
from pwfl.execution import execute
overrides, realizations, size = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
model, scheduler = scenario.resolve(overrides, {}), sys.argv[4]
def shard(first, stop):
    tables = execute(Task("channel", model.of_stage("channel"), None, range(first, stop)), {})
    tables |= execute(Task("schedule", model.of_stage("schedule", scheduler), scheduler), tables)
    tables |= execute(Task("noise", model.of_stage("noise", "optimal"), "optimal"), tables)
    tables |= execute(Task("receive", model.of_stage("receive")), tables)
    execute(Task("account", model.of_stage("account")), tables)
shard(0, min(realizations, size))
start = time.perf_counter()
for first in range(0, realizations, size):
    shard(first, min(first + size, realizations))
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def overrides(kind: str, size: int) -> tuple[dict, int]:
    """The scenario of a size, and how many realizations are timed."""
    data = {"dataset": "mnist", "samples_total": 60_000 if size >= 1_000 else None}
    if kind == "realizations":
        return {}, size
    if kind == "users":
        privacy = {"min_noise": 1.0} if size >= 1_000 else {}
        return {"network": {"users": size}, "data": data if size >= 300 else {}, "privacy": privacy}, 20
    if kind == "cells":
        rings = round(((4 * size - 1) / 3) ** 0.5 - 1) // 2
        total = {"samples_total": 60_000} if size > 19 else {}
        return {"network": {"rings": rings, "users": 14 * size}, "data": total, "privacy": {"min_noise": 20.0}}, 20
    return {"radio": {"resource_blocks": size}}, 100


def rows() -> list[dict]:
    """What grew, its size, seconds for a realization, and the job's peak memory in MiB."""
    found = []
    for scheduler, kind in [*(("optimal", kind) for kind in SIZES), *(("joint", kind) for kind in JOINT)]:
        what = kind if scheduler == "optimal" else f"{kind}, {scheduler}"
        for size in SIZES[kind]:
            scenario, realizations = overrides(kind, size)
            output = subprocess.check_output(
                [sys.executable, "-c", JOB, json.dumps(scenario), str(realizations), str(SHARD), scheduler]
            )
            elapsed, memory = json.loads(output)
            found.append(
                {"what": what, "size": size, "seconds_per_realization": elapsed / realizations, "peak_mib": memory}
            )
            print(found[-1], file=sys.stderr)
    return found

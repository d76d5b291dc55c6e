"""Measure the growth of cost with size: time of the stages from `channel` to `account`, and peak memory of a job."""

import json
import subprocess
import sys

SIZES = {
    "realizations": [100, 1_000, 10_000, 100_000],
    "users": [100, 300, 1_000, 3_000, 10_000],
    "cells": [7, 19, 37, 61, 91, 127],
    "resource blocks": [5, 10, 20, 50],
    "users of 16 antennas": [500, 1_000, 2_000, 4_000],
}
NOISE = {"all": "fixed"}  # noise mechanisms of schedulers that are not multicell's
JOINT = ("cells", "resource blocks")  # sizes by which the scheduler of all cells is measured, too
CHUNK = 100  # realizations of a job
JOB = """
import json, resource, sys, time
from pwfl import scenario
from pwfl.execution.stage import Task
from pwfl.execution import execute
overrides, realizations, size = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
model, scheduler, noise = scenario.resolve(overrides, {}), *sys.argv[4:6]
def chunk(first, stop):
    tables = execute(Task("channel", model.select_stage("channel"), None, range(first, stop)), {})
    tables |= execute(Task("schedule", model.select_stage("schedule", scheduler), scheduler), tables)
    tables |= execute(Task("noise", model.select_stage("noise", noise), noise), tables)
    tables |= execute(Task("receive", model.select_stage("receive")), tables)
    execute(Task("account", model.select_stage("account")), tables)
chunk(0, min(realizations, size))
start = time.perf_counter()
for first in range(0, realizations, size):
    chunk(first, min(first + size, realizations))
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def overrides(kind: str, size: int) -> tuple[dict, int]:
    """Return the parameters of a scenario of a size, and the number of realizations to time."""
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
    if kind == "users of 16 antennas":
        small = {"data": {"dataset": "digits", "samples_per_user": 50}, "training": {"rounds": 3, "batch_size": 10}}
        of_it = {"system": "random_orthogonalization", "network": {"users": 4, "antennas": 16}}
        return of_it | small | {"privacy": {"user_numbers": [size]}}, 5
    return {"radio": {"resource_blocks": size}}, 100


def rows() -> list[dict]:
    """Measure seconds per realization and a job's peak memory in MiB, for each kind of size and each size."""
    found = []
    own = {"users of 16 antennas": "all"}
    for scheduler, kind in [
        *((own.get(kind, "optimal"), kind) for kind in SIZES),
        *(("joint", kind) for kind in JOINT),
    ]:
        what = f"{kind}, {scheduler}" if scheduler == "joint" else kind
        for size in SIZES[kind]:
            scenario, realizations = overrides(kind, size)
            output = subprocess.check_output(
                [
                    sys.executable,
                    "-c",
                    JOB,
                    json.dumps(scenario),
                    str(realizations),
                    str(CHUNK),
                    scheduler,
                    NOISE.get(scheduler, "optimal"),
                ]
            )
            elapsed, memory = json.loads(output)
            found.append(
                {"what": what, "size": size, "seconds_per_realization": elapsed / realizations, "peak_mib": memory}
            )
            print(found[-1], file=sys.stderr)
    return found

"""Generation: blocks of samples, computed anywhere, kept as they finish, assembled at the end.

A dataset is cut into fixed blocks of consecutive samples. A block depends on the description only,
so it may be computed by any worker, in any order, before or after a crash; the blocks on disk are
all the state there is. Only the process that was asked writes files: workers of a cluster need no
common disk.

From Python everything is computed in the calling process, unless workers are asked for: processes
import the program that started them, and a script without `if __name__ == "__main__":` would run
once more in each of them. The command line asks for "auto": the first missing block is computed
here and timed, and if the others would take more than `PATIENCE` seconds at that pace, Dask workers
are started, one process per core with one thread each; below that, starting them costs more than
they save.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from neuralsolver.data import store
from neuralsolver.data.cluster import available_cores, compute_on_workers, installed
from neuralsolver.data.dataset import Dataset, DatasetSpec
from neuralsolver.data.reference_solution import (
    ReferenceSolution,
    solve_reference,
    truncate_spectrum,
    working_resolution,
)
from neuralsolver.equations import Equation, generator
from neuralsolver.equations.base import Array
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.files import exclusive
from neuralsolver.limits import Int, check_memory

PATIENCE = 10.0
"""Seconds of remaining work from which on workers are worth their start-up time."""

ATTEMPT_LIMIT = 100
"""Fields drawn for one sample before the regime is called unsolvable."""

STATIC_BLOCK, FLOW_BLOCK = 16, 2

FIELDS_AT_ONCE = 6
"""Arrays of the size of a block of solutions that are in memory at the same time."""

LEAST_RATIO = 4
"""Smooth fields are compressed by less than this."""

Workers = int | Literal["auto"]
Solver = Callable[[Equation, Array], ReferenceSolution]
Report = Callable[[int, int], None]
"""Called with (samples finished, samples in all)."""


@dataclass(frozen=True)
class Generation:
    """What a call of `run_generation` found and did; sample counts."""

    dataset: Dataset
    path: Path
    kept: int
    computed: int
    seconds: float


def generate(
    spec: DatasetSpec,
    folder: str | Path | None = None,
    *,
    workers: Workers = 1,
    scheduler: str | None = None,
    report: Report | None = None,
) -> Dataset:
    """The dataset of this description: read when it exists, otherwise computed and stored.

    `workers` 0 or 1 computes in this process; more start as many local processes, for which a
    script needs its `if __name__ == "__main__":`; "auto" starts one per core where that saves time.
    `scheduler` is the address of a Dask cluster to use instead. `report(done, total)` is called
    whenever samples are finished.

    >>> import neuralsolver as ns, tempfile
    >>> spec = ns.DatasetSpec(ns.Poisson(), count=4, resolution=16)
    >>> inputs, solution = ns.generate(spec, tempfile.mkdtemp())[:2]
    >>> inputs.shape, solution.shape
    ((2, 1, 16, 16), (2, 1, 16, 16))
    """
    generation = run_generation(spec, folder, workers=workers, scheduler=scheduler, report=report)
    return generation.dataset


def run_generation(
    spec: DatasetSpec,
    folder: str | Path | None = None,
    *,
    workers: Workers = 1,
    scheduler: str | None = None,
    report: Report | None = None,
) -> Generation:
    """`generate`, with an account of what was done."""
    started = time.perf_counter()
    if workers != "auto":
        workers = Int(0, 1024).read("workers", workers)
    path = store.dataset_path(spec, folder)
    partial = path.with_suffix(".partial")
    kept = computed = 0
    if not path.exists():
        check_memory_for(spec)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            values = spec.count * math.prod(spec.equation.solution_shape(spec.resolution))
            store.check_space(path.parent, 8 * values // LEAST_RATIO)
            with exclusive(partial / "lock", "generation of a dataset"):
                if not path.exists():
                    kept, computed = _fill(spec, path, workers, scheduler, report)
        except OSError as error:
            if store.is_disk_full(error):
                raise store.disk_full(path.parent) from None
            raise
    dataset = store.open_dataset(path, spec.equation)
    if dataset.description["fingerprint"] != spec.fingerprint:
        raise InvalidInput(str(path), f"fingerprint {spec.fingerprint}", "another dataset")
    # also what a run left that was killed after its last rename
    shutil.rmtree(partial, ignore_errors=True)
    return Generation(dataset, path, kept, computed, time.perf_counter() - started)


def _fill(
    spec: DatasetSpec,
    path: Path,
    workers: Workers,
    scheduler: str | None,
    report: Report | None,
) -> tuple[int, int]:
    """Compute the missing blocks and assemble; the numbers of samples kept and computed."""
    partial, count = path.with_suffix(".partial"), -(-spec.count // block_size(spec))
    present = {number for number in store.finished_blocks(partial) if number < count}
    missing = [number for number in range(count) if number not in present]
    kept = sum(len(block_range(spec, number)) for number in present)
    done = kept
    if report:
        report(done, spec.count)
    for number, content in _compute(spec, missing, workers, scheduler):
        store.save_block(partial, number, content)
        done += len(block_range(spec, number))
        if report:
            report(done, spec.count)
    blocks = store.finished_blocks(partial)
    store.check_space(partial, sum(block.stat().st_size for block in blocks.values()))
    try:
        ordered = [blocks[number] for number in range(count)]
        store.assemble(spec, ordered, partial / "assembled.tmp", path)
    except RuntimeError as error:  # the HDF5 library failing while it closes a file
        raise OSError(str(error)) from None
    return kept, done - kept


def block_size(spec: DatasetSpec) -> int:
    """The number of samples in every block but the last."""
    return FLOW_BLOCK if spec.equation.frames else STATIC_BLOCK


def block_range(spec: DatasetSpec, number: int) -> range:
    """The sample indices of a block."""
    size = block_size(spec)
    return range(number * size, min((number + 1) * size, spec.count))


def compute_block(spec: DatasetSpec, solver: Solver, number: int) -> bytes:
    """The samples of one block, compressed; a field without a solution is drawn again."""
    equation, indices = spec.equation, block_range(spec, number)
    n, fine = spec.resolution, working_resolution(spec.equation, spec.resolution)
    inputs = np.empty((len(indices), len(equation.input_names), *equation.dimension * (n,)))
    solution = np.empty((len(indices), *equation.solution_shape(n)))
    rejected = np.zeros(len(indices), dtype=np.int32)
    waiting = np.arange(len(indices))
    for attempt in range(ATTEMPT_LIMIT):
        keys = [(spec.split_code, indices[j], attempt) for j in waiting]
        drawn = np.stack([equation.sample(generator(spec.seed, *key), fine) for key in keys])
        equation.check_inputs(torch.from_numpy(drawn))
        answer = solver(equation, drawn)
        good = _checked(equation, answer, fine).solved
        inputs[waiting[good]] = truncate_spectrum(answer.inputs[good], n)
        solution[waiting[good]] = truncate_spectrum(answer.solution[good], n)
        waiting = waiting[~good]
        if not len(waiting):
            return store.encode_block(inputs, solution, rejected)
        rejected[waiting] += 1
    raise ReferenceFailure(
        f"{equation.name}: none of {ATTEMPT_LIMIT} fields drawn for sample "
        f"{indices[waiting[0]]} has a solution; constants {equation.constants()}"
    )


def _checked(equation: Equation, answer: ReferenceSolution, resolution: int) -> ReferenceSolution:
    expected = (len(answer.inputs), *equation.solution_shape(resolution))
    if answer.solution.shape != expected or answer.solved.shape != expected[:1]:
        got = f"{answer.solution.shape} and {answer.solved.shape}"
        raise InvalidInput(f"truth of {equation.name}", f"solutions {expected}", got)
    if not np.isfinite(answer.solution[answer.solved]).all():
        raise ReferenceFailure(f"{equation.name}: the solver returned values that are not finite")
    return answer


def _compute(
    spec: DatasetSpec, missing: list[int], workers: Workers, scheduler: str | None
) -> Iterator[tuple[int, bytes]]:
    """The missing blocks with their numbers, in any order."""
    # looked up here and sent along: a worker has not seen what the caller's script registered
    block = partial(compute_block, spec, solve_reference.dispatch(type(spec.equation)))
    waiting = iter(missing)
    if scheduler is None and workers == "auto":
        started = time.perf_counter()
        for number in islice(waiting, 1):
            yield number, block(number)
        ahead = (len(missing) - 1) * (time.perf_counter() - started)
        many = ahead > PATIENCE and installed()
        workers = min(available_cores(), len(missing) - 1) if many else 1
    if scheduler is None and (workers == "auto" or workers < 2):
        for number in waiting:
            yield number, block(number)
        return
    count = 0 if workers == "auto" else workers
    yield from compute_on_workers(block, list(waiting), spec.name, count, scheduler)


def check_memory_for(spec: DatasetSpec) -> None:
    """Raise InvalidInput when a block of samples cannot fit in memory."""
    fine = working_resolution(spec.equation, spec.resolution)
    block = min(spec.count, block_size(spec)) * math.prod(spec.equation.solution_shape(fine))
    check_memory("resolution", spec.resolution, 8.0 * FIELDS_AT_ONCE * block)

"""The same bytes whatever the workers, the order and the interruptions."""

import fcntl
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from neuralsolver.data import (
    DatasetSpec,
    cluster,
    generate,
    generation,
    run_generation,
    store,
)
from neuralsolver.data.reference_solution import ReferenceSolution, solve_reference
from neuralsolver.equations import (
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
    register,
)
from neuralsolver.equations.registry import EQUATIONS
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.stencils import laplacian
from neuralsolver.reference import cosine_field

SPEC = DatasetSpec(Poisson(), count=70, resolution=12, seed=5)
SOLVER = solve_reference.dispatch(Poisson)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return digest(run_generation(SPEC, tmp_path_factory.mktemp("data"), workers=1).path)


@dataclass(frozen=True)
class ScreenedPoisson(Equation):
    """Δu − μ²u = f, of a user's."""

    screening: float = 2.0

    @property
    def linear(self):
        return True

    def residual(self, space, u, inputs):
        return laplacian(u, space.grid) - space.zero_boundary(self.screening**2 * u + inputs)

    def sample(self, rng, resolution):
        return cosine_field(rng, resolution)[None]


@dataclass(frozen=True)
class Marked(ScreenedPoisson):
    """An equation whose registered solver leaves a mark, and which refuses negative means."""


@solve_reference.register
def _(equation: Marked, drawn: np.ndarray) -> ReferenceSolution:
    return ReferenceSolution(drawn, np.full_like(drawn, 7.0), drawn.mean((1, 2, 3)) > 0)


ON_WORKERS = """
from distributed import LocalCluster
from tests.data.test_generation import DatasetSpec, Marked, run_generation

settings = dict(n_workers=1, processes=False, protocol="tcp", host="127.0.0.1")
spec = DatasetSpec(Marked(), count=70, resolution=12)
print(run_generation(spec, {folder!r} + "/local", workers=2).path)
with LocalCluster(dashboard_address="127.0.0.1:0", **settings) as cluster:
    address = cluster.scheduler_address
    print(run_generation(spec, {folder!r} + "/cluster", scheduler=address).path)
"""


@pytest.mark.slow
def test_workers_compute_the_same_bytes_and_know_registered_solvers(tmp_path):
    # in a process of its own: Dask leaves sockets to the garbage collector
    script = ON_WORKERS.format(folder=str(tmp_path))
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        timeout=120,
    )
    alone = run_generation(DatasetSpec(Marked(), count=70, resolution=12), tmp_path, workers=1)
    assert (alone.dataset.solution[:] == 7.0).all()
    assert alone.dataset.rejected.sum() > 10
    local, cluster = done.stdout.split()
    assert digest(Path(local)) == digest(Path(cluster)) == digest(alone.path)


def test_block_order_does_not_matter(tmp_path, expected):
    path = store.dataset_path(SPEC, tmp_path)
    partial = path.with_suffix(".partial")
    partial.mkdir()
    for number in (3, 0, 4, 1):
        content = generation.compute_block(SPEC, SOLVER, number)
        store.save_block(partial, number, content)
    made = run_generation(SPEC, tmp_path, workers=1)
    assert (made.kept, made.computed) == (54, 16)
    assert digest(made.path) == expected
    assert os.listdir(tmp_path) == [made.path.name]


@pytest.mark.parametrize("stop_at", [16, 48, 70])
def test_an_interrupted_run_resumes(tmp_path, expected, stop_at):
    def interrupt(done, total):
        if done >= stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_generation(SPEC, tmp_path, workers=1, report=interrupt)
    assert not list(tmp_path.glob("*.h5"))
    made = run_generation(SPEC, tmp_path, workers=1)
    assert (made.kept, made.computed) == (stop_at, 70 - stop_at)
    assert digest(made.path) == expected


def test_damaged_blocks_are_computed_again(tmp_path, expected):
    partial = store.dataset_path(SPEC, tmp_path).with_suffix(".partial")
    partial.mkdir()
    for number in range(5):
        store.save_block(partial, number, generation.compute_block(SPEC, SOLVER, number))
    first, second, *_ = sorted(partial.glob("*.h5"))
    os.truncate(first, 100)
    content = bytearray(second.read_bytes())
    content[700] ^= 1
    second.write_bytes(content)
    (partial / "000003-x.h5.tmp").write_bytes(b"half")
    made = run_generation(SPEC, tmp_path, workers=1)
    assert (made.kept, made.computed) == (38, 32)
    assert digest(made.path) == expected


def test_asking_again_returns_at_once(tmp_path, expected, monkeypatch):
    run_generation(SPEC, tmp_path, workers=1)
    monkeypatch.setattr(generation, "compute_block", None)
    again = run_generation(SPEC, tmp_path)
    assert (again.kept, again.computed) == (0, 0)
    assert again.seconds < 1
    assert digest(again.path) == expected


def test_a_sample_depends_on_seed_and_index_only(tmp_path):
    many = generate(SPEC, tmp_path)
    few = generate(replace(SPEC, count=3), tmp_path)
    np.testing.assert_array_equal(many.inputs[:3], few.inputs[:])
    np.testing.assert_array_equal(many.solution[:3], few.solution[:])
    other = generate(replace(SPEC, count=3, split="test"), tmp_path)
    assert not np.array_equal(other.inputs[:], few.inputs[:])


def test_fields_without_a_solution_are_counted_and_never_stored(tmp_path):
    hard = Helmholtz(wavenumber=3.0, nonlinearity=4.0, source_amplitude=100.0)
    dataset = generate(DatasetSpec(hard, 20, 16), tmp_path, workers=1)
    assert dataset.rejected.sum() > 3
    assert dataset.description["rejected_total"] == dataset.rejected.sum()
    problem = dataset.problem()
    _, solution = dataset.tensors()
    scale = problem.residual(problem.zeros()).abs().amax((1, 2, 3))
    assert (problem.residual(solution).abs().amax((1, 2, 3)) < 1e-9 * scale).all()
    unlucky = int(np.flatnonzero(dataset.rejected)[0])
    first_try = Problem.random(hard, 16, count=1).inputs.numpy()
    assert not np.array_equal(dataset.inputs[unlucky], first_try[0])


def test_a_regime_without_solutions_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "ATTEMPT_LIMIT", 3)
    hopeless = Helmholtz(wavenumber=3.0, nonlinearity=4.0, source_amplitude=1e5)
    with pytest.raises(ReferenceFailure, match="none of 3 fields"):
        generate(DatasetSpec(hopeless, 2, 16), tmp_path)


def test_a_users_equation_goes_through(tmp_path):
    spec = DatasetSpec(ScreenedPoisson(3.0), 4, 16)
    dataset = generate(spec, tmp_path)
    problem = dataset.problem()
    assert problem.residual(dataset.tensors()[1]).abs().max() < 1e-10
    with pytest.raises(InvalidInput, match="equation"):
        _ = store.open_dataset(dataset.inputs.path).equation
    register(ScreenedPoisson())
    try:
        assert store.open_dataset(dataset.inputs.path).equation == ScreenedPoisson(3.0)
    finally:
        del EQUATIONS["screened-poisson"]


def test_a_coarse_flow_shows_the_fine_one(tmp_path):
    flow = NavierStokes(start_time=0.5, frame_spacing=0.25, frames=2)
    coarse = generate(DatasetSpec(flow, 3, 16), tmp_path)
    fine = generate(DatasetSpec(flow, 3, 64), tmp_path)
    low = np.abs(np.fft.fft2(fine.solution[:])[..., :6, :6]) / 64**2
    seen = np.abs(np.fft.fft2(coarse.solution[:])[..., :6, :6]) / 16**2
    np.testing.assert_allclose(seen, low, atol=1e-14)


def test_two_runs_for_one_dataset_do_not_collide(tmp_path):
    partial = store.dataset_path(SPEC, tmp_path).with_suffix(".partial")
    partial.mkdir()
    with open(partial / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InvalidInput, match="no other process"):
            generate(SPEC, tmp_path)
    assert len(generate(SPEC, tmp_path)) == 70


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "x"])
def test_a_scheduler_that_is_not_there(tmp_path, address, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(InvalidInput, match="scheduler"):
        generate(SPEC, tmp_path, scheduler=address)


def test_bad_numbers_of_workers(tmp_path):
    with pytest.raises(InvalidInput, match="workers"):
        generate(SPEC, tmp_path, workers=-1)


def test_a_solver_with_the_wrong_shape_or_nan_is_caught():
    def short(equation, drawn):
        return ReferenceSolution(drawn, drawn[:, :, 1:], np.ones(len(drawn), dtype=bool))

    def undefined(equation, drawn):
        return ReferenceSolution(drawn, drawn * np.nan, np.ones(len(drawn), dtype=bool))

    with pytest.raises(InvalidInput, match="truth of poisson"):
        generation.compute_block(SPEC, short, 0)
    with pytest.raises(ReferenceFailure, match="not finite"):
        generation.compute_block(SPEC, undefined, 0)


def test_a_dataset_of_boxes_has_three_axes(tmp_path):
    spec = DatasetSpec(Darcy(source="field", dimension=3), 3, 8)
    dataset = generate(spec, tmp_path)
    inputs, solution = dataset[:]
    assert inputs.shape == (3, 2, 8, 8, 8)
    assert solution.shape == (3, 1, 8, 8, 8)
    problem = dataset.problem()
    residual = problem.residual(torch.from_numpy(solution))
    assert float(residual.norm()) < 1e-9 * float(problem.inputs[:, 1].norm())

"""What determines a dataset, and what can be read from one."""

import dataclasses
import gc
import os
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from neuralsolver.data import DatasetSpec, generate, open_dataset
from neuralsolver.data.generation import run_generation
from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson
from neuralsolver.errors import InvalidInput

SPEC = DatasetSpec(Helmholtz(), count=5, resolution=12, split="train", seed=3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return generate(SPEC, tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize(
    "change",
    [
        {"equation": Helmholtz(wavenumber=3.0)},
        {"equation": Poisson()},
        {"equation": Helmholtz(source_amplitude=50.0)},
        {"count": 6},
        {"resolution": 13},
        {"split": "test"},
        {"seed": 4},
    ],
)
def test_every_field_changes_the_fingerprint(change):
    assert dataclasses.replace(SPEC, **change).fingerprint != SPEC.fingerprint


def test_the_fingerprint_does_not_depend_on_how_a_number_is_written():
    first = DatasetSpec(Helmholtz(wavenumber=3), 5, 12)
    second = DatasetSpec(Helmholtz(wavenumber=3.0), np.int64(5), 12)
    assert first.fingerprint == second.fingerprint
    assert first.name == f"helmholtz-train-12-{first.fingerprint[:12]}"


def test_the_generator_version_is_part_of_the_fingerprint(monkeypatch):
    before = SPEC.fingerprint
    monkeypatch.setattr("neuralsolver.data.dataset.GENERATOR_VERSION", 999)
    assert SPEC.fingerprint != before


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"count": 0}, "count"),
        ({"count": True}, "count"),
        ({"count": 2.5}, "count"),
        ({"resolution": 4}, "resolution"),
        ({"resolution": -4}, "resolution"),
        ({"split": "valid"}, "split"),
        ({"seed": -1}, "seed"),
        ({"equation": "helmholtz"}, "equation"),
        ({"equation": NavierStokes(), "resolution": 33}, "resolution"),
    ],
)
def test_a_bad_description_names_the_field(change, word):
    with pytest.raises(InvalidInput, match=word):
        dataclasses.replace(SPEC, **change)


@pytest.mark.parametrize("changes", [{"time_order": 4}, {"dealiasing": "2/3"}])
def test_how_a_residual_is_taken_does_not_change_the_fingerprint(changes):
    usual = NavierStokes(frames=4)
    described = DatasetSpec(usual, 2, 16)
    other = DatasetSpec(dataclasses.replace(usual, **changes), 2, 16)
    assert other.fingerprint == described.fingerprint
    longer = DatasetSpec(dataclasses.replace(usual, frames=5, **changes), 2, 16)
    assert longer.fingerprint != described.fingerprint


def test_one_file_serves_every_way_to_take_a_residual(tmp_path):
    usual = NavierStokes(frames=4, frame_spacing=0.1, start_time=0.0)
    accurate = dataclasses.replace(usual, time_order=4, dealiasing="2/3")
    first = run_generation(DatasetSpec(accurate, 1, 16), tmp_path)
    again = run_generation(DatasetSpec(usual, 1, 16), tmp_path)
    assert (first.computed, again.computed) == (1, 0)
    assert again.path == first.path
    assert first.dataset.equation == accurate
    assert again.dataset.equation == usual
    assert first.dataset.problem().equation == accurate
    assert first.dataset.spec == DatasetSpec(accurate, 1, 16)


def test_reading_by_index_slice_list_and_mask(stored):
    everything = np.asarray(stored.inputs)
    assert everything.shape == (5, 1, 12, 12)
    assert everything.dtype == np.float64
    mask = np.array([True, False, True, False, True])
    for index in (2, -1, slice(1, 4), slice(None, None, -2), [3, 0, 3], mask, []):
        np.testing.assert_array_equal(stored.inputs[index], everything[index])
    np.testing.assert_array_equal(stored.solution[1, 0, 3], np.asarray(stored.solution)[1, 0, 3])
    with pytest.raises(IndexError):
        stored.inputs[5]


def test_problem_and_tensors_belong_together(stored):
    problem = stored.problem(slice(0, 3))
    inputs, solution = stored.tensors(slice(0, 3))
    assert torch.equal(problem.inputs, inputs)
    assert problem.residual(solution).abs().max() < 1e-9
    assert stored.tensors(4, torch.float32)[1].shape == (1, 1, 12, 12)
    assert stored.tensors(4, torch.float32)[1].dtype == torch.float32


def test_a_data_loader_accepts_a_dataset(stored):
    batches = list(DataLoader(stored, batch_size=2))
    assert [len(inputs) for inputs, _ in batches] == [2, 2, 1]


def test_a_dataset_survives_pickling_and_rebuilds_its_description(stored):
    copy = pickle.loads(pickle.dumps(stored))
    np.testing.assert_array_equal(copy.inputs[:], stored.inputs[:])
    assert copy.spec == SPEC
    assert open_dataset(stored.inputs.path).spec.fingerprint == SPEC.fingerprint


def test_no_file_stays_open(stored):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        stored[0]
    assert len(os.listdir("/proc/self/fd")) <= before


def test_attributes_describe_the_file(tmp_path):
    flow = NavierStokes(frames=3, frame_spacing=0.1, start_time=0.0)
    dataset = generate(DatasetSpec(flow, 1, 16), tmp_path)
    assert dataset.solution.shape == (1, 1, 4, 16, 16)
    np.testing.assert_allclose(dataset.frame_times, [0.0, 0.1, 0.2, 0.3])
    reopened = open_dataset(dataset.inputs.path)
    assert reopened.equation == flow
    assert reopened.description["constants"]["viscosity"] == 1e-4
    np.testing.assert_array_equal(reopened.inputs[0], reopened.solution[0][:, 0])
    darcy = generate(DatasetSpec(Darcy(stencil="wide"), 1, 16), tmp_path)
    assert open_dataset(darcy.inputs.path).equation == Darcy(stencil="wide")

"""Files that people already have: tiny ones in each layout, written here and read back."""

import json

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from neuralsolver.data import DatasetSpec, export_npz, generate, read
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson, generator
from neuralsolver.errors import FileDamaged, InvalidInput


def solved(equation, count=3, n=12):
    drawn = np.stack([equation.sample(generator(2, i), n) for i in range(count)])
    answer = solve_reference(equation, drawn)
    return answer.inputs[:, 0], answer.solution[:, 0]


def save_matlab_73(path, arrays):
    """HDF5 behind MATLAB's 512 bytes of header, with the axes in MATLAB's order."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.transpose(values)
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    with open(path, "r+b") as file:
        file.write(header.ljust(512, b"\0"))


def save_hdf5(path, arrays, **attributes):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        file.attrs.update(attributes)


STATIC = [
    ("f_data", "psi_data", Helmholtz(wavenumber=1.0)),
    ("f_data", "psi_data", Helmholtz(wavenumber=3.0)),
    ("f_data", "phi_data", Poisson(scale=1.0)),
    ("f_data", "phi_data", Poisson(scale=2.0)),
    ("thresh_a_data", "thresh_p_data", Darcy(source=100.0)),
    ("coeff", "sol", Darcy(source=1.0)),
]


@pytest.mark.parametrize("save", [scipy.io.savemat, save_matlab_73, save_hdf5])
@pytest.mark.parametrize(("first", "second", "equation"), STATIC)
def test_static_layouts(tmp_path, save, first, second, equation):
    fields, solution = solved(equation)
    path = tmp_path / "file.mat"
    save(path, {first: fields, second: solution, "other": np.zeros(2)})
    dataset = read(path)
    assert dataset.equation == equation
    np.testing.assert_array_equal(dataset.inputs, fields[:, None])
    np.testing.assert_array_equal(dataset.solution, solution[:, None])
    assert any(first in note for note in dataset.notes)
    problem, (_, u) = dataset.problem(), dataset.tensors()
    assert problem.residual(u).abs().max() < 1e-8


@pytest.mark.parametrize("save", [scipy.io.savemat, save_matlab_73, save_hdf5])
@pytest.mark.parametrize("with_first", [True, False])
def test_trajectories(tmp_path, save, with_first):
    flow = NavierStokes(start_time=1.0, frame_spacing=0.1, frames=4)
    fields, frames = solved(flow, 3, 16)
    kept = frames if with_first else frames[:, 1:]
    times = flow.frame_times if with_first else flow.frame_times[1:]
    path = tmp_path / "file.h5"
    save(path, {"a": fields, "u": np.moveaxis(kept, 1, -1), "t": times[None]})
    dataset = read(path)
    assert dataset.solution.shape == (3, 1, 5, 16, 16)
    np.testing.assert_array_equal(dataset.solution[:, 0], frames)
    np.testing.assert_allclose(dataset.frame_times, flow.frame_times, atol=1e-12)
    assert dataset.equation.name == "navier-stokes"
    assert any("front" in note for note in dataset.notes) != with_first


def test_pdebench_darcy_is_read_as_it_is_and_its_grid_is_noted(tmp_path):
    fields, solution = solved(Darcy(source=10.0))
    path = tmp_path / "2D_DarcyFlow_beta10.0_Train.hdf5"
    coordinates = {"x-coordinate": (np.arange(12) + 0.5) / 12}
    arrays = {"nu": fields, "tensor": solution[:, None].astype(np.float32), **coordinates}
    save_hdf5(path, arrays, beta=10.0)
    dataset = read(path)
    assert dataset.equation.source == 10.0
    assert any("cell centres" in note for note in dataset.notes)
    np.testing.assert_allclose(dataset.solution, solution[:, None], rtol=1e-6)


def test_constants_can_be_given(tmp_path):
    fields, solution = solved(Helmholtz(wavenumber=2.5))
    scipy.io.savemat(tmp_path / "x.mat", {"f_data": fields, "psi_data": solution})
    dataset = read(tmp_path / "x.mat", Helmholtz(wavenumber=2.5))
    assert dataset.equation.wavenumber == 2.5
    assert any("2.5" in note and "e-1" in note for note in dataset.notes)


def test_as_many_samples_as_grid_points_is_ambiguous_without_a_header(tmp_path):
    fields, solution = solved(Poisson(), 12, 12)
    arrays = {"f_data": fields, "phi_data": solution}
    save_hdf5(tmp_path / "plain.h5", arrays)
    with pytest.raises(FileDamaged, match="tell samples from grid points"):
        read(tmp_path / "plain.h5")
    save_matlab_73(tmp_path / "matlab.mat", arrays)
    np.testing.assert_array_equal(read(tmp_path / "matlab.mat").inputs[:, 0], fields)


@pytest.mark.parametrize(
    ("arrays", "word"),
    [
        ({"x": np.zeros((3, 4, 4))}, "layouts"),
        ({"f_data": np.zeros((3, 12, 12))}, "layouts"),
        ({name: np.ones((3, 12, 12)) for name in ("f_data", "psi_data", "phi_data")}, "only one"),
        ({"coeff": np.ones((3, 12, 10)), "sol": np.ones((3, 12, 10))}, "square"),
        ({"coeff": np.ones((3, 12, 12)), "sol": np.ones((4, 12, 12))}, "square"),
        ({"coeff": -np.ones((3, 12, 12)), "sol": np.ones((3, 12, 12))}, "positive"),
        ({"f_data": np.full((3, 12, 12), np.nan), "psi_data": np.ones((3, 12, 12))}, "finite"),
        ({"f_data": np.ones((3, 12, 12)) * 1j, "psi_data": np.ones((3, 12, 12))}, "real"),
        ({"f_data": np.ones((3, 4, 4)), "psi_data": np.ones((3, 4, 4))}, "resolution"),
        ({"nu": np.ones((3, 12, 12)), "tensor": np.ones((3, 12, 12))}, "tensor"),
        ({"a": np.ones((3, 12, 12)), "u": np.ones((3, 12, 12))}, "shape"),
        (
            {"a": np.ones((3, 12, 12)), "u": np.ones((3, 12, 12, 4)), "t": np.array([0, 1, 3, 4])},
            "evenly spaced",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, arrays, word):
    for save in (scipy.io.savemat, save_hdf5):
        save(tmp_path / "x.mat", arrays)
        with pytest.raises(InvalidInput, match=word) as caught:
            read(tmp_path / "x.mat")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("save", [scipy.io.savemat, save_matlab_73, save_hdf5])
def test_truncated_files(tmp_path, save):
    fields, solution = solved(Poisson())
    path = tmp_path / "x.mat"
    save(path, {"f_data": fields, "phi_data": solution})
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(FileDamaged) as caught:
            read(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04\x95", b"MATLAB 5.0 MAT-file junk"])
def test_foreign_files(tmp_path, content):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(FileDamaged):
        read(tmp_path / "x.mat")


def test_own_files_are_read_and_exported(tmp_path):
    made = generate(DatasetSpec(Darcy(), 3, 12), tmp_path)
    dataset = read(made.inputs.path)
    path = export_npz(dataset, tmp_path / "sub" / "x.npz")
    with np.load(path, allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["inputs"], made.inputs[:])
        np.testing.assert_array_equal(plain["solution"], made.solution[:])
        assert json.loads(str(plain["description"]))["constants"]["source"] == 100.0
    with pytest.raises(InvalidInput, match="npz"):
        export_npz(dataset, tmp_path / "x.txt")
    assert torch.is_tensor(dataset.tensors()[0])

"""HDF5 and MATLAB files that reach outside themselves, lie about their size or are of no type."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import scipy.io

from neuralsolver.cli import run
from neuralsolver.data import DatasetSpec, generate, read
from neuralsolver.data.instances import read_problem
from neuralsolver.equations import Poisson
from neuralsolver.errors import FileDamaged, InvalidInput

FIELDS = np.random.default_rng(0).random((3, 12, 12)) + 1.0


@pytest.fixture
def victim(tmp_path):
    """What a hostile file would like to read."""
    path = tmp_path / "victim.h5"
    with h5py.File(path, "w") as file:
        file["secret"] = FIELDS
    (tmp_path / "raw").write_bytes(FIELDS.tobytes())
    return path


def external_link(file, victim):
    file["coeff"] = h5py.ExternalLink(str(victim), "secret")


def soft_link(file, victim):
    file["there"] = FIELDS
    file["coeff"] = h5py.SoftLink("/there")


def external_storage(file, victim):
    raw = [(str(victim.parent / "raw"), 0, FIELDS.nbytes)]
    file.create_dataset("coeff", FIELDS.shape, "f8", external=raw)


def virtual(file, victim):
    layout = h5py.VirtualLayout(FIELDS.shape, "f8")
    layout[:] = h5py.VirtualSource(str(victim), "secret", FIELDS.shape)
    file.create_virtual_dataset("coeff", layout)


@pytest.mark.parametrize("plant", [external_link, soft_link, external_storage, virtual])
def test_files_that_reach_outside_themselves_are_refused(tmp_path, victim, plant):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        plant(file, victim)
        file["sol"] = FIELDS
    with pytest.raises(FileDamaged, match="itself"):
        read(path)


@pytest.mark.parametrize("plant", [external_link, external_storage, virtual])
def test_native_files_that_reach_outside_themselves_are_refused(tmp_path, victim, plant):
    dataset = generate(DatasetSpec(Poisson(), 3, 12), tmp_path)
    path = dataset.inputs.path
    with h5py.File(path, "a") as file:
        plant(file, victim)
        del file["solution"]
        file.move("coeff", "solution")
    for reading in (lambda: read(path), lambda: dataset[:]):
        with pytest.raises(FileDamaged, match="itself"):
            reading()


def test_a_claim_without_values_is_not_read(tmp_path):
    path = tmp_path / "huge.h5"
    with h5py.File(path, "w") as file:
        for key in ("coeff", "sol"):
            file.create_dataset(key, (10_000, 4096, 4096), "f8", chunks=(1, 64, 64))
    assert path.stat().st_size < 10**6
    with pytest.raises(FileDamaged, match="values that are there"):
        read(path)


def test_a_sparse_file_is_not_read(tmp_path):
    path = tmp_path / "sparse.h5"
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((1000, 256, 256))
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        for key in (b"coeff", b"sol"):
            h5py.h5d.create(file.id, key, h5py.h5t.IEEE_F64LE, space, creation)
    assert path.stat().st_size > 10**9
    assert path.stat().st_blocks * 512 < 10**6
    with pytest.raises(FileDamaged, match="values that are there"):
        read(path)


BAD_ENTRIES = {
    "text": lambda file, key: file.create_dataset(key, data=np.array([b"hello"])),
    "void": lambda file, key: file.create_dataset(key, data=np.zeros(3, "V8")),
    "empty": lambda file, key: file.create_dataset(key, data=h5py.Empty("f8")),
    "nothing": lambda file, key: file.create_dataset(key, data=np.zeros((0, 12, 12))),
    "scalar": lambda file, key: file.create_dataset(key, data=1.0),
    "complex": lambda file, key: file.create_dataset(key, data=FIELDS * 1j),
    "record": lambda file, key: file.create_dataset(key, data=np.zeros(3, [("a", "f8")])),
    "group": lambda file, key: file.create_group(key),
    "missing": lambda file, key: None,
}


@pytest.mark.parametrize("kind", BAD_ENTRIES)
@pytest.mark.parametrize("key", ["coeff", "sol"])
def test_foreign_entries_of_no_use(tmp_path, kind, key):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name in ("coeff", "sol"):
            if name == key:
                BAD_ENTRIES[kind](file, name)
            else:
                file[name] = FIELDS
    with pytest.raises(FileDamaged) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", BAD_ENTRIES)
@pytest.mark.parametrize("key", ["inputs", "solution", "rejected"])
def test_native_entries_of_no_use(tmp_path, kind, key):
    path = generate(DatasetSpec(Poisson(), 3, 12), tmp_path).inputs.path
    with h5py.File(path, "a") as file:
        del file[key]
        BAD_ENTRIES[kind](file, key)
    with pytest.raises(FileDamaged):
        read(path)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("constants", "["),
        ("constants", "[1]"),
        ("constants", "[" * 100_000),
        ("constants", 3),
        ("count", "many"),
        ("count", -1),
        ("resolution", 2.5),
        ("seed", np.zeros(3)),
        ("split", "both"),
        ("equation", 7),
        ("frame_times", "soon"),
        ("frame_times", np.array([0.0, np.nan])),
        ("fingerprint", None),
    ],
)
def test_every_attribute_has_a_type(tmp_path, attribute, value):
    path = generate(DatasetSpec(Poisson(), 3, 12), tmp_path).inputs.path
    with h5py.File(path, "a") as file:
        if attribute in file.attrs:
            del file.attrs[attribute]
        if value is not None:
            file.attrs[attribute] = np.bytes_(value[:60_000]) if isinstance(value, str) else value
    with pytest.raises(FileDamaged):
        read(path)


@pytest.mark.parametrize("beta", ["large", np.zeros(3), np.nan, np.zeros((0,))])
def test_the_constant_of_pdebench_is_one_number(tmp_path, beta):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["nu"], file["tensor"] = FIELDS, FIELDS[:, None]
        file.attrs["beta"] = beta
    with pytest.raises(InvalidInput, match="beta"):
        read(tmp_path / "x.h5")


def test_only_known_arrays_of_a_matlab_file_are_read(tmp_path):
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"coeff": FIELDS, "sol": FIELDS, "other": {"a": "b"}, "more": "text"})
    assert read(path).inputs.shape == (3, 1, 12, 12)
    scipy.io.savemat(path, {"a": FIELDS, "u": np.ones((3, 12, 12, 4)), "t": "soon"})
    with pytest.raises(FileDamaged):
        read(path)


@pytest.mark.parametrize("kind", ["objects", "version", "huge", "text", "npz", "empty"])
def test_an_input_that_is_no_field(tmp_path, kind, capsys):
    path = tmp_path / "f.npy"
    if kind == "objects":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif kind == "npz":
        np.savez(tmp_path / "f.npz", a=FIELDS)
        (tmp_path / "f.npz").rename(path)
    else:
        np.save(path, FIELDS[0])
        content = path.read_bytes()
        changed = {
            "version": content[:6] + b"\x09" + content[7:],
            "huge": content.replace(b"(12, 12), }" + b" " * 10, b"(9999999, 9999999), }"),
            "text": b"hello",
            "empty": b"",
        }[kind]
        path.write_bytes(changed)
    assert run(["solve", "poisson", "--method", "reference", "--input", str(path)]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "--input" in line
    assert "pickle" not in line


def test_a_field_is_read(tmp_path):
    np.save(tmp_path / "f.npy", FIELDS[0])
    np.testing.assert_array_equal(
        read_problem(Poisson(), tmp_path / "f.npy").inputs[0, 0], FIELDS[0]
    )


def test_info_of_a_hostile_file_is_one_line(tmp_path, victim, capsys):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        external_link(file, victim)
        file["sol"] = FIELDS
    assert run(["info", str(path), "--json"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    good = generate(DatasetSpec(Poisson(), 3, 12), tmp_path).inputs.path
    assert run(["info", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 3

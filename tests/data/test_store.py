"""Files: whole or absent, and damage is noticed."""

import errno
import os
import shutil

import numpy as np
import pytest

from neuralsolver.data import DatasetSpec, generate, open_dataset, store
from neuralsolver.equations import Poisson
from neuralsolver.errors import FileDamaged, InvalidInput

SPEC = DatasetSpec(Poisson(), count=20, resolution=16)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return generate(SPEC, folder).inputs.path


@pytest.fixture
def copy(original, tmp_path):
    return shutil.copy(original, tmp_path / original.name)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(copy, share):
    os.truncate(copy, int(os.path.getsize(copy) * share))
    with pytest.raises(FileDamaged) as caught:
        open_dataset(copy)
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_noticed_or_harmless(original, copy):
    intact, content = open_dataset(original), original.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for position in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        copy.write_bytes(damaged)
        try:
            dataset = open_dataset(copy)
            fields = dataset[:]
        except FileDamaged:
            noticed += 1
            continue
        assert dataset.description == intact.description
        np.testing.assert_array_equal(dataset.rejected, intact.rejected)
        for mine, theirs in zip(fields, intact[:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert noticed > 45


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "text.h5").write_text("not a dataset")
    with pytest.raises(FileDamaged, match="whole HDF5"):
        open_dataset(tmp_path / "text.h5")
    with pytest.raises(InvalidInput, match="existing"):
        open_dataset(tmp_path / "absent.h5")


def test_asking_for_a_damaged_dataset_says_so(copy):
    os.truncate(copy, 1000)
    with pytest.raises(FileDamaged, match=copy.name):
        generate(SPEC, copy.parent)


def test_a_full_disk_while_writing_a_block(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(InvalidInput, match="disk"):
        generate(SPEC, tmp_path)
    assert not list(tmp_path.glob("*.h5"))
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_disk_while_assembling(tmp_path, monkeypatch, original):
    def full(source, target, first):
        raise OSError("Can't write data (errno = 28, error message = 'No space left on device')")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_copy_chunks", full)
        with pytest.raises(InvalidInput, match="blocks are kept"):
            generate(SPEC, tmp_path)
    assert not list(tmp_path.glob("*.h5"))
    with monkeypatch.context() as patch:
        usage = shutil.disk_usage(tmp_path)._replace(free=10)
        patch.setattr(store.shutil, "disk_usage", lambda folder: usage)
        with pytest.raises(InvalidInput, match="MB free"):
            generate(SPEC, tmp_path)
    assert generate(SPEC, tmp_path).inputs.path.read_bytes() == original.read_bytes()


def test_any_failure_leaves_nothing_under_the_final_name(tmp_path, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("Can't decrement id ref count")

    monkeypatch.setattr(store, "assemble", broken)
    with pytest.raises(OSError, match="ref count"):
        generate(SPEC, tmp_path)
    assert not list(tmp_path.glob("*.h5"))


def test_writing_a_whole_file_replaces_or_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "x"
    store.write_whole(path, b"old")

    def fails(source, target):
        raise OSError("no")

    monkeypatch.setattr(store.os, "replace", fails)
    with pytest.raises(OSError, match="no"):
        store.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_the_data_folder_is_the_option_then_the_variable_then_the_default(monkeypatch):
    monkeypatch.delenv("ENS_DATA", raising=False)
    assert str(store.data_folder()) == "data"
    monkeypatch.setenv("ENS_DATA", "elsewhere")
    assert str(store.data_folder()) == "elsewhere"
    assert str(store.data_folder("here")) == "here"


def test_samples_are_chunks(original):
    import h5py

    with h5py.File(original, "r") as file:
        assert file["solution"].chunks == (1, 1, 16, 16)
        assert file["solution"].fletcher32
        assert file["solution"].compression == "gzip"
        assert file.attrs["seed"] == 0
    assert np.isfinite(open_dataset(original).solution[:]).all()

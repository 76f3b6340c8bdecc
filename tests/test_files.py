"""Writing files: whole or not at all, and nothing harmed that was not named."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from neuralsolver import files
from neuralsolver.cli import run
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import check_output, exclusive, read_regular, write_whole


def test_a_device_is_written_and_stays_a_device(tmp_path):
    """As `--output /dev/null` does; a node of our own where that is allowed, else a pipe."""
    write_whole("/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"hello")
    reader.join(10)
    assert heard == [b"hello"]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later")
    write_whole(dangling, b"made")
    assert (tmp_path / "later").read_bytes() == b"made"


def test_links_planted_beside_the_output_lead_nowhere(tmp_path, monkeypatch):
    """Also at the very name that is chosen: it is created exclusively, or not at all."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "u.npy.tmp").symlink_to(victim)
    write_whole(tmp_path / "u.npy", b"answer")
    assert victim.read_bytes() == b"precious"
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "fixed")
    (tmp_path / ".fixed.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "u.npy", b"other")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "u.npy").read_bytes() == b"answer"


def test_permissions_are_kept_and_new_files_obey_the_mask(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"")
    path.chmod(0o600)
    write_whole(path, b"still secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code = (
        "import os, sys; os.umask(0o027); "
        "from neuralsolver.files import write_whole; write_whole(sys.argv[1], b'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "new")], check=True)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_whole(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_only_regular_files_of_a_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileDamaged, match="regular file"):
        read_regular(tmp_path / "pipe", 10)
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == b"12345"
    with pytest.raises(FileDamaged, match="at most 4"):
        read_regular(tmp_path / "x", 4)


def test_an_output_is_checked_before_the_work(tmp_path):
    (tmp_path / "in.npy").write_bytes(b"")
    (tmp_path / "same.npy").symlink_to(tmp_path / "in.npy")
    for output in (tmp_path / "in.npy", tmp_path / "same.npy"):
        with pytest.raises(InvalidInput, match="another file than the input"):
            check_output(output, tmp_path / "in.npy")
    for output in (tmp_path, tmp_path / "no" / "x"):
        with pytest.raises(InvalidInput, match="--output"):
            check_output(output)
    check_output(tmp_path / "x", tmp_path / "in.npy")


def test_one_process_at_a_time(tmp_path):
    with exclusive(tmp_path / "lock", "work"):
        with pytest.raises(InvalidInput, match="work: expected no other process"):
            exclusive(tmp_path / "lock", "work").__enter__()
        code = (
            "import sys; from pathlib import Path; from neuralsolver.files import exclusive\n"
            "with exclusive(Path(sys.argv[1]), 'work'): pass"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "no other process" in other.stderr
    with exclusive(tmp_path / "lock", "work"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.fixture
def source(tmp_path):
    np.save(tmp_path / "f.npy", np.random.default_rng(0).standard_normal((16, 16)))
    return tmp_path / "f.npy"


def test_solving_never_replaces_its_input(source, capsys):
    before = source.read_bytes()
    command = ["solve", "poisson", "--method", "reference", "--input", str(source)]
    assert run([*command, "--output", str(source)]) == 1
    assert "another file than the input" in capsys.readouterr().err
    assert source.read_bytes() == before


def test_an_answer_that_was_not_reached_replaces_nothing_unless_asked_to(tmp_path, capsys):
    output = tmp_path / "u.npy"
    output.write_bytes(b"an older answer")
    beyond = ["solve", "nonlinear-helmholtz", "--method", "reference", "--resolution", "16"]
    beyond += ["--set", "source_amplitude=3000", "--output", str(output)]
    assert run(beyond) == 3
    assert "kept as it was" in capsys.readouterr().err
    assert output.read_bytes() == b"an older answer"
    assert run([*beyond, "--overwrite"]) == 3
    assert np.load(output).shape == (16, 16)
    output.unlink()
    assert run(beyond) == 3
    assert np.load(output).shape == (16, 16)

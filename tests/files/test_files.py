"""Writing is atomic and durable, several files change together, damage is noticed, and a folder has one writer."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from icpe import DataError, IcpeError
from icpe.files import (
    MANIFEST,
    check_files,
    finish_interrupted,
    opened,
    read_json,
    remove_leftovers,
    sealed,
    write_atomically,
    write_json,
    write_text,
    write_together,
)

FRAME = pl.DataFrame({"a": list(range(200_000))})
WRITERS = {
    "a.txt": lambda path: path.write_text("x" * 2_000_000),
    "a.parquet": FRAME.write_parquet,
    "a.csv": FRAME.write_csv,
    "a.safetensors": lambda path: save_file({"a": torch.arange(500_000)}, path),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Killed(BaseException):
    """Simulated kill. It is not an Exception, so that no handler catches it."""


# One file


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_follows_the_umask_and_nothing_else_is_left(name, tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new" / name, WRITERS[name])
        assert os.umask(0o027) == 0o027, "the process-wide umask is not touched"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o640
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


@pytest.fixture
def small_disk():
    """No file can become larger than 100,000 bytes, as if the disk were full."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_takes_no_more_leaves_the_old_file(name, tmp_path, small_disk):
    (tmp_path / name).write_text("old")
    with pytest.raises(IcpeError, match=f"cannot write .*{name}: File too large; .* unchanged") as caught:
        write_atomically(tmp_path / name, WRITERS[name])
    assert type(caught.value) is IcpeError, "exit code 1: neither the data nor a setting is wrong"
    assert contents(tmp_path) == {name: b"old"}
    assert len(list(tmp_path.iterdir())) == 1


def test_the_remedy_follows_the_reason(tmp_path):
    for number, remedy in ((28, "free some space"), (30, "folder that you may write to"), (2, "has disappeared")):

        def fail(path, number=number):
            raise OSError(number, os.strerror(number))

        with pytest.raises(IcpeError, match=f"{os.strerror(number)}.*{remedy}"):
            write_atomically(tmp_path / "x", fail)


def test_a_mistake_in_a_writer_is_not_hidden(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "x", lambda path: 1 / 0)
    assert list(tmp_path.iterdir()) == []


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from icpe.files import write_atomically
def write(path):
    path.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically(Path(sys.argv[1]) / "result.txt", write)
"""


def test_the_next_write_removes_what_a_killed_process_left(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert left[0].name.startswith(".icpe-tmp-")
    write_text(tmp_path / "other.txt", "new")
    assert contents(tmp_path) == {"other.txt": b"new"}
    assert len(list(tmp_path.iterdir())) == 1


def test_files_that_are_being_written_are_no_leftovers(tmp_path):
    def write(path):
        path.write_text("half")
        remove_leftovers(tmp_path)
        path.write_text("all")

    write_atomically(tmp_path / "x.txt", write)
    assert contents(tmp_path) == {"x.txt": b"all"}


REMOVING = """
import sys
from pathlib import Path
from icpe.files import remove_leftovers
print("removing", flush=True)
while not (Path(sys.argv[1]) / "end").exists():
    remove_leftovers(Path(sys.argv[1]))
"""


def test_a_process_that_removes_leftovers_does_not_disturb_a_writer(tmp_path):
    with subprocess.Popen([sys.executable, "-c", REMOVING, str(tmp_path)], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        try:
            for number in range(1000):
                write_text(tmp_path / "x.txt", str(number))
        finally:
            (tmp_path / "end").touch()
    assert (tmp_path / "x.txt").read_text() == "999"


# Several files


def texts(**files):
    return {name.replace("_", "."): lambda path, text=text: path.write_text(text) for name, text in files.items()}


def test_the_manifest_lists_what_was_written(tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "gone.txt").write_text("gone")
    write_together(tmp_path, texts(a_txt="one", b_txt="two"), keep=["kept.txt"], remove=["gone.txt"])
    listed = read_json(tmp_path / MANIFEST)["files"]
    # printf one | sha256sum
    assert listed["a.txt"] == {"bytes": 3, "sha256": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"}
    assert list(listed) == ["a.txt", "b.txt", "kept.txt"]
    assert not (tmp_path / "gone.txt").exists()
    write_together(tmp_path, texts(a_txt="three", log_txt="grows"), remove=["b.txt"], unlisted=["log.txt"])
    assert list(read_json(tmp_path / MANIFEST)["files"]) == ["a.txt", "kept.txt"]
    check_files(tmp_path, ["a.txt", "kept.txt"], required=True)


def killed_at(monkeypatch, count, after):
    """Raise Killed before or after a rename or the removal of a file, counted from 1."""
    done = []
    for name in ("replace", "unlink"):
        original = getattr(Path, name)

        def counted(self, *args, original=original, **options):
            done.append(self)
            if len(done) == count and not after:
                raise Killed
            found = original(self, *args, **options)
            if len(done) == count:
                raise Killed
            return found

        monkeypatch.setattr(Path, name, counted)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_leaves_all_old_or_all_new_files(tmp_path, monkeypatch, after):
    outcomes = []
    for count in range(1, 20):
        folder = tmp_path / f"{count}"
        write_together(folder, texts(a_txt="old a", b_txt="old b", c_txt="old c"))
        old = contents(folder)
        with monkeypatch.context() as patch:
            killed_at(patch, count, after)
            try:
                write_together(folder, texts(a_txt="new a", b_txt="new b"), remove=["c.txt"])
                break
            except Killed:
                pass
        check_files(folder, ["a.txt", "b.txt"], required=True)
        found = contents(folder)
        outcomes.append("old" if found == old else "new")
        if outcomes[-1] == "new":
            assert found.keys() == {"a.txt", "b.txt", MANIFEST}
            assert (found["a.txt"], found["b.txt"]) == (b"new a", b"new b")
        assert not list(folder.glob(".*"))
    assert set(outcomes) == ({"new"} if after else {"old", "new"})
    assert outcomes == sorted(outcomes, reverse=True), "old before the journal is there, new from then on"
    assert len(outcomes) >= 5


def test_a_failing_writer_changes_nothing(tmp_path):
    write_together(tmp_path, texts(a_txt="old"))
    before = contents(tmp_path)
    with pytest.raises(ZeroDivisionError):
        write_together(tmp_path, {**texts(a_txt="new"), "b.txt": lambda path: 1 / 0})
    assert contents(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


def test_a_journal_cannot_reach_outside_its_folder(tmp_path):
    folder, victim = tmp_path / "folder", tmp_path / "victim.txt"
    folder.mkdir()
    victim.write_text("mine")
    record = {"staging": ".icpe-tmp-1", "files": [], "remove": ["../victim.txt"]}
    write_json(folder / ".icpe-journal.json", sealed(record))
    with pytest.raises(DataError, match="not a plain file name"):
        finish_interrupted(folder)
    assert victim.exists()


def test_a_damaged_journal_is_refused(tmp_path):
    (tmp_path / ".icpe-journal.json").write_text(
        '{"staging": ".icpe-tmp-1", "files": [], "remove": ["a"], "checksum": ""}'
    )
    with pytest.raises(DataError, match="was interrupted and cannot be finished.*checksum"):
        check_files(tmp_path, [])


# Damage


@pytest.fixture
def listed(tmp_path):
    write_together(tmp_path, texts(a_txt="content", b_txt="more"))
    return tmp_path


def test_every_flipped_bit_of_a_listed_file_is_noticed(listed):
    path = listed / "a.txt"
    for bit in range(8 * 7):
        damaged = bytearray(b"content")
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.txt is damaged or was changed: it has .* as SHA-256"):
            check_files(listed, ["a.txt"])


def test_every_flipped_bit_of_the_manifest_is_noticed_or_changes_nothing(listed):
    path = listed / MANIFEST
    original, meaning, noticed = path.read_bytes(), read_json(path), 0
    for bit in range(8 * len(original)):
        damaged = bytearray(original)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            check_files(listed, ["a.txt", "b.txt"], required=True)
        except DataError as error:
            assert "manifest.json is damaged" in str(error)
            noticed += 1
        else:
            assert json.loads(damaged) == meaning, "only blanks between values may differ"
    assert noticed > 7 * len(original)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "a.txt").unlink(), r"a\.txt cannot be read"),
        (lambda folder: (folder / "a.txt").write_text("contents"), "it has 8 bytes, the manifest beside it says 7"),
        (lambda folder: (folder / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda folder: (folder / MANIFEST).write_text("[" * 100_000), "nested too deeply"),
        (lambda folder: (folder / MANIFEST).write_text("{}"), "its checksum is missing"),
        (lambda folder: write_json(folder / MANIFEST, sealed({"format": 2, "files": {}})), "use a newer icpe"),
        (lambda folder: write_json(folder / MANIFEST, sealed({"format": 1, "files": {}})), "does not list a.txt"),
    ],
)
def test_damage_is_named(listed, damage, message):
    damage(listed)
    with pytest.raises(DataError, match=message):
        check_files(listed, ["a.txt"], required=True)


def test_sealed_content_does_not_depend_on_the_order_of_keys():
    assert opened(dict(reversed(sealed({"a": 1, "b": [2.5, None]}).items()))) == {"b": [2.5, None], "a": 1}
    with pytest.raises(ValueError, match="does not match its checksum"):
        opened({**sealed({"a": 1}), "a": 2})

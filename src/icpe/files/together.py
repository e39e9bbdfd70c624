"""Writing several files of a folder so that, after a crash, either all old ones or all new ones are there.

All new files are completed in a staging folder first. Then a journal says which file gets which name. From the moment
the journal exists, the new files count: a process that finds the journal of a killed one carries out what is left.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from icpe.errors import DataError
from icpe.files.atomic import JOURNAL, Staging, Writer, as_json, disk_errors, remove_leftovers, sync, text_writer
from icpe.files.manifest import MANIFEST, REMEDY, file_entry, manifest_of, opened, read_json, read_manifest, sealed


def write_together(
    folder: Path,
    writers: Mapping[str, Writer],
    *,
    keep: Iterable[str] = (),
    remove: Iterable[str] = (),
    unlisted: Iterable[str] = (),
    fresh: bool = False,
) -> None:
    """Write several files of a folder and its manifest; after a crash, all or none of them have changed.

    Args:
        folder: folder of the files, which is created if necessary.
        writers: function that writes each file, by the name of the file.
        keep: existing files that the manifest lists as they are now.
        remove: files to delete.
        unlisted: files of ``writers`` that the manifest leaves out, because they will grow.
        fresh: whether to begin a new manifest, whatever the state of the folder. Otherwise the files that the old one
            lists stay listed, and a damaged one is an error.

    Raises:
        IcpeError: the disk is full, the folder cannot be written to or has disappeared. Nothing has changed.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            (folder / JOURNAL).unlink(missing_ok=True)
        finish_interrupted(folder)
        remove_leftovers(folder)
        gone, listed = {*remove, *unlisted}, {} if fresh else read_manifest(folder) or {}
        entries = {name: one for name, one in listed.items() if name not in gone}
        entries |= {name: file_entry(folder / name) for name in keep}
        staging = Staging(folder)
        try:
            for name, write in writers.items():
                path = staging.write(name, write)
                if name not in gone:
                    entries[name] = file_entry(path)
            staging.write(MANIFEST, text_writer(as_json(manifest_of(entries))))
            record = {"staging": staging.folder.name, "files": [*writers, MANIFEST], "remove": [*remove]}
            journal = staging.write(JOURNAL, text_writer(as_json(sealed(record))))
        except BaseException:
            staging.remove()
            raise
        try:
            journal.replace(folder / JOURNAL)
            sync(folder)
            finish_interrupted(folder)
        finally:
            if (folder / JOURNAL).exists():
                staging.release()  # the next process finishes what is left
            else:
                staging.remove()


def finish_interrupted(folder: Path) -> None:
    """Carry out what is left of a :func:`write_together` that was interrupted; usually nothing.

    Raises:
        DataError: the journal is damaged.
        IcpeError: the disk is full, or this user may not write to the folder.
    """
    with disk_errors(folder):
        _finish_interrupted(folder)


def _finish_interrupted(folder: Path) -> None:
    path = folder / JOURNAL
    try:
        record = opened(read_json(path))
        staging = folder / _plain(record["staging"])
        for name in record["files"]:
            with suppress(FileNotFoundError):  # it has its final name already
                (staging / _plain(name)).replace(folder / name)
        for name in record["remove"]:
            (folder / _plain(name)).unlink(missing_ok=True)
        sync(folder)
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"saving {folder} was interrupted and cannot be finished: {path} {error}; {REMEDY}") from error
    remove_leftovers(folder)


def _plain(name: str) -> str:
    """Return the name after checking that it stays inside the folder."""
    if name in ("", ".", "..") or len(PurePosixPath(name).parts) != 1 or "\\" in name:
        raise ValueError(f"names {name!r}, which is not a plain file name")
    return name

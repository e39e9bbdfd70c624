"""Download of the data sets of the catalogue into the cache.

Downloads go into a temporary folder beside the final one. A file gets its final name only when it is complete and its
checksum is right, so neither a crash nor a bad download leaves an incomplete file or damages an old one.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from icpe.data.datasets.archive import unpack
from icpe.data.datasets.catalogue import Dataset, RemoteFile
from icpe.data.datasets.places import cache_dir, locate, search_places
from icpe.data.datasets.transfer import BadDownloadError, transfer
from icpe.data.datasets.verify import checksum, file_name, record, verify
from icpe.errors import ConfigError, DataError


def fetch(dataset: Dataset, data_dir: Path | None = None, *, progress: bool = False, force: bool = False) -> Path:
    """The folder with the files of a data set, which are downloaded into the cache if they are not on this machine.

    Args:
        dataset: entry of the catalogue.
        data_dir: folder to search first.
        progress: show a progress bar on standard error, if that is a terminal.
        force: download again into the cache, even if the files exist.

    Raises:
        ConfigError: the data set is generated, so there is nothing to fetch.
        DataError: the download failed, or the data set cannot be downloaded; the message says how to get it by hand.
            Or a file in the cache is no longer the one that was downloaded.
    """
    if not dataset.files:
        raise ConfigError(f"{dataset.name} is generated when it is used; nothing needs fetching")
    if not force and (found := locate(dataset, data_dir)):
        return verify(dataset, found)
    if not dataset.remote:
        raise DataError(_not_downloadable(dataset, data_dir, force))
    target = cache_dir() / dataset.name
    for remote in dataset.remote:
        # After an interruption, files that are complete are not downloaded again.
        if force or not _is_complete(dataset, remote, target):
            _download(dataset, remote, target, progress)
    return target


def _is_complete(dataset: Dataset, remote: RemoteFile, folder: Path) -> bool:
    if remote.archive:
        return all((folder / file).is_file() for file in dataset.files)
    path = folder / file_name(remote)
    return path.is_file() and (remote.checksum is None or checksum(path, remote.checksum) == remote.checksum)


def _download(dataset: Dataset, remote: RemoteFile, target: Path, progress: bool) -> None:
    """Download one file or archive and move the wanted files into ``target``."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{dataset.name}-", dir=target.parent) as name:
            path = Path(name) / file_name(remote)
            transfer(remote, path, progress)
            optional = [dataset.item_file] if dataset.item_file else []
            files = unpack(path, dataset.files, optional) if remote.archive else [path]
            target.mkdir(exist_ok=True)
            for file in files:
                file.replace(target / file.name)
            record(target, [file.name for file in files])
    except BadDownloadError as error:
        message = f"cannot download {dataset.name} from {remote.url}: {error}; {_advice(dataset)}"
        raise DataError(" ".join(message.split())) from error
    except OSError as error:
        raise DataError(
            f"cannot write {dataset.name} to {target}: {error.strerror or error}. "
            "Free some space, or name another folder with ICPE_CACHE"
        ) from error


def _advice(dataset: Dataset) -> str:
    return (
        f"put {_and(dataset.files)} into {cache_dir() / dataset.name}/, "
        f"or name a folder with --data-dir or ICPE_DATA that holds {dataset.name}/"
    )


def _not_downloadable(dataset: Dataset, data_dir: Path | None, force: bool) -> str:
    searched = "" if force else f" and is not in {', '.join(str(place) for place in search_places(data_dir))}"
    advice = _advice(dataset)
    return f"{dataset.name} cannot be downloaded{searched}. {dataset.by_hand} {advice[0].upper()}{advice[1:]}"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

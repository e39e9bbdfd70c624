import errno
import hashlib
import io
import json
import os
import re
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe.data.datasets import (
    CATALOGUE,
    Dataset,
    RemoteFile,
    cache_dir,
    fetch,
    find_dataset,
    item_names,
    locate,
    transfer,
)
from icpe.data.datasets.archive import unpack
from icpe.data.datasets.transfer import BadDownloadError
from icpe.data.datasets.verify import RECORD, published
from icpe.errors import ConfigError, DataError

TRAIN = b"0 1 2 3\n1 2\n" * 50
TEST = b"0 4\n1 5\n"
NAMES = 'id\tname\turl\n7\tSigur Rós\thttp://x\n89\tLady "Gaga"\t\n90\t1975\t\n'.encode()


@dataclass
class Answer:
    body: bytes
    status: int = 200
    announced: int | None = None  # Content-Length, where it differs from what is sent
    delay: float = 0.0


@dataclass
class Server:
    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def offer(self, path: str, answer: Answer | bytes, checksum: str | None = None) -> RemoteFile:
        self.answers[path] = Answer(answer) if isinstance(answer, bytes) else answer
        return RemoteFile(self.url + path, checksum, archive=path.endswith(".zip"))


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            answer = state.answers.get(self.path, Answer(b"nothing here", status=404))
            time.sleep(answer.delay)
            with suppress(ConnectionError):  # the other side may have given up waiting
                self.send_response(answer.status)
                self.send_header("Content-Length", str(answer.announced or len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the tests away from the user's own folders and from any proxy."""
    monkeypatch.setenv("ICPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ICPE_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


def toy(
    *remote: RemoteFile, files: tuple[str, ...] = ("train.txt", "test.txt"), item_file: str | None = None
) -> Dataset:
    return Dataset(
        name="toy",
        title="Toy",
        source="https://example.org",
        terms="none",
        citation="none",
        k_core=None,
        files=files,
        remote=remote,
        by_hand="Ask a friend.",
        columns={},
        read_options={},
        item_file=item_file,
    )


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def put(place: Path, dataset: Dataset, content: bytes = b"old") -> Path:
    folder = place / dataset.name
    folder.mkdir(parents=True)
    for file in dataset.files:
        (folder / file).write_bytes(content)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the record of checksums; folders too, so that nothing left behind goes unseen."""
    found = sorted(path for path in folder.rglob("*") if path.name != RECORD)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder" for path in found}


def failure(dataset: Dataset, *, force: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        fetch(dataset, force=force)
    message = str(caught.value)
    assert "\n" not in message
    return message


def by_hand(cache: Path, files: str = "train.txt and test.txt") -> str:
    return f"put {files} into {cache}/toy/, or name a folder with --data-dir or ICPE_DATA"


# Where files are looked for


def test_cache_folder_is_named_by_the_environment_else_the_system(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == cache
    monkeypatch.setenv("ICPE_CACHE", "~/somewhere")
    assert cache_dir() == Path.home() / "somewhere"
    monkeypatch.setenv("ICPE_CACHE", "")
    assert cache_dir().is_absolute()
    assert "icpe" in cache_dir().parts


def test_places_are_searched_in_order(
    server: Server, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), server.offer("/test.txt", TEST))
    monkeypatch.setenv("ICPE_DATA", str(tmp_path / "named"))
    given = tmp_path / "given"
    assert locate(dataset, given) is None
    assert fetch(dataset, given) == cache / "toy"
    assert server.requests == ["/train.txt", "/test.txt"]
    for place in (tmp_path / "named", given):  # each goes before those filled earlier
        put(place, dataset)
        assert locate(dataset, given) == fetch(dataset, given) == place / "toy"
    assert locate(dataset) == tmp_path / "named" / "toy"
    assert len(server.requests) == 2


def test_a_place_must_hold_all_files(tmp_path: Path, cache: Path) -> None:
    dataset = toy()
    folder = put(tmp_path / "given", dataset)
    (folder / "test.txt").unlink()
    (folder / "test.txt").mkdir()
    assert locate(dataset, tmp_path / "given") is None
    put(cache, dataset)
    assert locate(dataset, tmp_path / "given") == cache / "toy"


def test_an_empty_variable_names_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = toy()
    put(tmp_path, dataset)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICPE_DATA", "")
    assert locate(dataset) is None


def test_a_closed_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", closed)
    with pytest.raises(DataError, match=re.escape(f"cannot look for toy in {tmp_path / 'toy'}: Permission denied")):
        locate(toy(), tmp_path)


def test_generated_data_need_no_fetching(cache: Path) -> None:
    assert locate(find_dataset("demo")) is None
    with pytest.raises(ConfigError, match="demo is generated when it is used; nothing needs fetching"):
        fetch(find_dataset("demo"))
    assert not cache.exists()


@pytest.mark.parametrize("name", [one.name for one in CATALOGUE.values() if one.files and not one.remote])
def test_what_cannot_be_downloaded_says_how_to_get_it(name: str, tmp_path: Path, cache: Path) -> None:
    dataset = find_dataset(name)
    with pytest.raises(DataError) as caught:
        fetch(dataset, tmp_path / "given")
    message = str(caught.value)
    assert f"{name} cannot be downloaded and is not in {tmp_path / 'given'}, {cache}." in message
    assert "https://www.yelp.com/dataset" in message
    assert f"into {cache}/{name}/, or name a folder with --data-dir or ICPE_DATA" in message
    assert "\n" not in message


def test_force_cannot_download_what_is_not_offered(cache: Path) -> None:
    put(cache, toy())
    assert failure(toy(), force=True).startswith("toy cannot be downloaded. Ask a friend. Put train.txt and test.txt")


# Downloads that work


def test_plain_files(server: Server, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dataset = toy(server.offer("/a/train.txt", TRAIN, md5(TRAIN)), server.offer("/b/test.txt", TEST))
    assert fetch(dataset, progress=True) == cache / "toy"
    assert contents(cache) == {"toy": b"folder", "toy/train.txt": TRAIN, "toy/test.txt": TEST}
    assert capfd.readouterr() == ("", "")


def test_second_fetch_makes_no_request(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), server.offer("/test.txt", TEST))
    assert fetch(dataset) == fetch(dataset)
    assert len(server.requests) == 2


def test_archive_gives_only_what_is_wanted(server: Server, cache: Path) -> None:
    archive = zipped(**{"top/train.txt": TRAIN, "top/artists.dat": NAMES, "top/readme.txt": b"read me", "top/": b""})
    dataset = toy(server.offer("/toy.zip", archive, sha256(archive)), files=("train.txt",), item_file="artists.dat")
    fetch(dataset)
    assert contents(cache) == {"toy": b"folder", "toy/train.txt": TRAIN, "toy/artists.dat": NAMES}
    fetch(dataset)
    assert server.requests == ["/toy.zip"]


def test_names_of_items_may_be_missing_in_an_archive(server: Server, cache: Path) -> None:
    dataset = toy(
        server.offer("/toy.zip", zipped(**{"train.txt": TRAIN})), files=("train.txt",), item_file="artists.dat"
    )
    assert item_names(dataset, fetch(dataset)) is None


def test_new_files_follow_the_umask(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), files=("train.txt",))
    old = os.umask(0o027)
    try:
        fetch(dataset)
    finally:
        os.umask(old)
    assert (cache / "toy" / "train.txt").stat().st_mode & 0o777 == (0o640 if os.name == "posix" else 0o666)


def test_force_downloads_again(server: Server, tmp_path: Path, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), server.offer("/test.txt", TEST))
    put(tmp_path / "given", dataset)
    put(cache, dataset)
    assert fetch(dataset, tmp_path / "given", force=True) == cache / "toy"
    assert contents(cache / "toy") == {"train.txt": TRAIN, "test.txt": TEST}
    assert contents(tmp_path / "given" / "toy") == {"train.txt": b"old", "test.txt": b"old"}


def test_goes_on_where_it_was_stopped(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN, md5(TRAIN)), server.offer("/test.txt", Answer(b"", status=503)))
    assert "503" in failure(dataset)
    assert contents(cache / "toy") == {"train.txt": TRAIN}
    server.offer("/test.txt", TEST)
    fetch(dataset)
    assert server.requests == ["/train.txt", "/test.txt", "/test.txt"]


def test_a_damaged_piece_in_the_cache_is_replaced_when_the_rest_is_fetched(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN, md5(TRAIN)), server.offer("/test.txt", TEST))
    put(cache, replace(dataset, files=("train.txt",)))
    fetch(dataset)
    assert contents(cache / "toy") == {"train.txt": TRAIN, "test.txt": TEST}


def test_bar_is_drawn_on_a_terminal_only(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), files=("train.txt",))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fetch(dataset, force=True)
    assert capsys.readouterr().err == ""
    fetch(dataset, force=True, progress=True)
    shown = capsys.readouterr()
    assert "train.txt" in shown.err
    assert f"{len(TRAIN)}/{len(TRAIN)} bytes" in shown.err
    assert shown.out == ""


# Downloads that fail: what is said, and that nothing is left behind


def refused_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/train.txt"


BROKEN_PLAIN = {
    "not found": (Answer(b"no such page", status=404), None, "the server answered 404 Not Found"),
    "server error": (Answer(b"oh", status=500), None, "the server answered 500 Internal Server Error"),
    "wrong checksum": (Answer(TEST), md5(TRAIN), f"the checksum is wrong, expected {md5(TRAIN)}, got {md5(TEST)}"),
    "cut off": (Answer(TRAIN, announced=10 * len(TRAIN)), None, "the transfer was cut off"),
    "empty": (Answer(b""), None, "the server sent an empty file"),
}


@pytest.mark.parametrize("case", BROKEN_PLAIN)
def test_broken_plain_download(case: str, server: Server, cache: Path) -> None:
    answer, checksum, words = BROKEN_PLAIN[case]
    dataset = toy(server.offer("/train.txt", answer, checksum), server.offer("/test.txt", TEST))
    message = failure(dataset)
    assert message.startswith(f"cannot download toy from {server.url}/train.txt: {words}; {by_hand(cache)}")
    assert contents(cache) == {}


@pytest.mark.parametrize("case", BROKEN_PLAIN)
def test_old_files_survive_a_failed_forced_download(case: str, server: Server, cache: Path) -> None:
    answer, checksum, words = BROKEN_PLAIN[case]
    dataset = toy(server.offer("/train.txt", answer, checksum), files=("train.txt",))
    put(cache, dataset)
    assert words in failure(dataset, force=True)
    assert contents(cache) == {"toy": b"folder", "toy/train.txt": b"old"}


def half_broken() -> bytes:
    """An archive whose first member is whole and whose second fails its check."""
    archive = bytearray(zipped(**{"train.txt": TRAIN, "test.txt": bytes(range(256))}))
    archive[archive.index(b"test.txt") + 40] ^= 0xFF
    return bytes(archive)


BROKEN_ARCHIVE = {
    "no zip": (b"<html>please log in</html>", "the archive is damaged (File is not a zip file)"),
    "cut in two": (zipped(**{"train.txt": TRAIN, "test.txt": TEST})[:-40], "the archive is damaged ("),
    "broken member": (half_broken(), "the archive is damaged ("),
    "member missing": (zipped(**{"train.txt": TRAIN, "other.txt": TEST}), "the archive lacks test.txt"),
    "no member": (zipped(), "the archive lacks train.txt and test.txt"),
}


@pytest.mark.parametrize("case", BROKEN_ARCHIVE)
def test_broken_archive(case: str, server: Server, cache: Path) -> None:
    archive, words = BROKEN_ARCHIVE[case]
    dataset = toy(server.offer("/toy.zip", archive))
    message = failure(dataset)
    assert message.startswith(f"cannot download toy from {server.url}/toy.zip: {words}")
    assert by_hand(cache) in message
    assert contents(cache) == {}


def test_old_files_survive_a_broken_archive(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/toy.zip", half_broken()))
    put(cache, dataset)
    failure(dataset, force=True)
    assert contents(cache / "toy") == {"train.txt": b"old", "test.txt": b"old"}


@pytest.mark.parametrize("name", ["../train.txt", "/train.txt", "a/../../train.txt", "../../toy/train.txt"])
def test_names_that_leave_the_archive_are_not_taken(name: str, server: Server, cache: Path, tmp_path: Path) -> None:
    dataset = toy(server.offer("/toy.zip", zipped(**{name: b"evil", "../evil.txt": b"evil"})), files=("train.txt",))
    assert "the archive lacks train.txt" in failure(dataset)
    assert contents(tmp_path) == {"cache": b"folder"}
    server.offer("/toy.zip", zipped(**{name: b"evil", "../evil.txt": b"evil", "data/train.txt": TRAIN}))
    fetch(dataset)
    assert contents(tmp_path) == {"cache": b"folder", "cache/toy": b"folder", "cache/toy/train.txt": TRAIN}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_no_damage_to_an_archive_gives_anything_but_an_own_error(damage: list[tuple[int, int]]) -> None:
    archive = bytearray(zipped(**{"train.txt": TRAIN, "test.txt": TEST}))
    for place, change in damage:
        archive[place % len(archive)] ^= change
    with TemporaryDirectory() as name:
        path = Path(name) / "toy.zip"
        path.write_bytes(archive)
        try:
            unpacked = unpack(path, ("train.txt", "test.txt"))
        except (BadDownloadError, OSError):
            return
        assert {file.name: file.read_bytes() for file in unpacked} == {"train.txt": TRAIN, "test.txt": TEST}


def test_connection_refused(cache: Path) -> None:
    url = refused_url()
    message = failure(toy(RemoteFile(url, None), files=("train.txt",)))
    assert message.startswith(f"cannot download toy from {url}: connection refused; {by_hand(cache, 'train.txt')}")
    assert contents(cache) == {}


def test_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_names(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    message = failure(toy(RemoteFile("http://data.invalid/train.txt", None), files=("train.txt",)))
    assert "http://data.invalid/train.txt: host not found (no network?); put train.txt" in message
    assert contents(cache) == {}


def test_silent_server(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", (0.2, 0.2))
    dataset = toy(server.offer("/train.txt", Answer(TRAIN, delay=0.6)), files=("train.txt",))
    assert "/train.txt: no answer in time; put" in failure(dataset)
    assert contents(cache) == {}


def test_interruption_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> str:
        raise KeyboardInterrupt

    dataset = toy(server.offer("/train.txt", TRAIN, md5(TRAIN)), files=("train.txt",))
    monkeypatch.setattr(pooch, "file_hash", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(dataset)
    assert contents(cache) == {}


def test_cache_that_is_a_file(server: Server, cache: Path) -> None:
    cache.write_bytes(b"in the way")
    message = failure(toy(server.offer("/train.txt", TRAIN), files=("train.txt",)))
    assert message.startswith(f"cannot write toy to {cache / 'toy'}: ")
    assert "ICPE_CACHE" in message


# Files that were downloaded earlier


def test_unpacked_files_are_compared_when_they_are_used_again(server: Server, cache: Path) -> None:
    archive = zipped(**{"train.txt": TRAIN, "artists.dat": NAMES})
    dataset = toy(server.offer("/toy.zip", archive, sha256(archive)), files=("train.txt",), item_file="artists.dat")
    fetch(dataset)
    assert json.loads((cache / "toy" / RECORD).read_text()) == {
        "train.txt": sha256(TRAIN),
        "artists.dat": sha256(NAMES),
    }
    for file in ("train.txt", "artists.dat"):
        good = (cache / "toy" / file).read_bytes()
        (cache / "toy" / file).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        message = failure(dataset)
        assert message.startswith(
            f"{cache / 'toy' / file} is not the file that was published: its checksum should be sha256:"
        )
        assert "icpe data fetch toy --force" in message
        fetch(dataset, force=True)
        assert fetch(dataset) == cache / "toy"


def test_a_file_without_a_known_checksum_must_stay_as_it_was_first_downloaded(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN), files=("train.txt",))
    fetch(dataset)
    (cache / "toy" / "train.txt").write_bytes(TEST)
    assert f"its checksum should be {sha256(TRAIN)}" in failure(dataset)


def test_files_put_into_the_cache_by_hand_are_compared_with_the_catalogue(server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN, sha256(TRAIN)), files=("train.txt",))
    put(cache, dataset, TRAIN)
    assert fetch(dataset) == cache / "toy"
    (cache / "toy" / "train.txt").write_bytes(TEST)
    assert "is not the file that was published" in failure(dataset)


def test_own_files_that_differ_from_the_published_ones_are_used_with_a_warning(tmp_path: Path) -> None:
    dataset = replace(toy(files=("train.txt",)), known={"train.txt": sha256(TRAIN)})
    folder = put(tmp_path / "own", dataset, TRAIN)
    assert fetch(dataset, tmp_path / "own") == folder
    (folder / "train.txt").write_bytes(TEST)
    with pytest.warns(UserWarning, match=r"train\.txt is not the published file of toy \(sha256:"):
        assert fetch(dataset, tmp_path / "own") == folder


@pytest.mark.parametrize("damaged", ["", "[", "[1]", "5", "[" * 100_000])
def test_a_damaged_record_is_reported(damaged: str, server: Server, cache: Path) -> None:
    dataset = toy(server.offer("/train.txt", TRAIN, sha256(TRAIN)), files=("train.txt",))
    fetch(dataset)
    (cache / "toy" / RECORD).write_text(damaged)
    assert f"{RECORD} cannot be read" in failure(dataset)
    fetch(dataset, force=True)
    assert fetch(dataset) == cache / "toy"


# Names of items


def names_of(content: bytes, folder: Path) -> Dataset:
    (folder / "artists.dat").write_bytes(content)
    return toy(item_file="artists.dat")


def test_item_names_keep_quotation_marks_and_digits(tmp_path: Path) -> None:
    frame = item_names(names_of(NAMES, tmp_path), tmp_path)
    assert frame is not None
    assert frame.columns == ["item_id", "name"]
    assert frame.rows() == [(7, "Sigur Rós"), (89, 'Lady "Gaga"'), (90, "1975")]


def test_data_without_item_names(tmp_path: Path) -> None:
    assert item_names(toy(), tmp_path) is None
    assert item_names(toy(item_file="artists.dat"), tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"number\ttitle\n1\tx\n", b"id\tname\n1\t\xff\xfe\n"])
def test_unreadable_item_names(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"artists\.dat cannot be read: .+ Expected tab-separated columns"):
        item_names(names_of(content, tmp_path), tmp_path)


# The real files


# Read before any test changes the environment.
REAL_DATA = Path(os.environ.get("ICPE_DATA") or Path(__file__).parents[2].parent / "shared" / "data")


@pytest.fixture
def real_data() -> Path:
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data: ICPE_DATA names no folder and {REAL_DATA} does not exist")
    return REAL_DATA


@pytest.mark.realdata
@pytest.mark.parametrize("name", [one.name for one in CATALOGUE.values() if one.files])
def test_real_files_are_found(name: str, real_data: Path) -> None:
    assert locate(find_dataset(name), real_data) == fetch(find_dataset(name), real_data) == real_data / name


@pytest.mark.realdata
def test_real_checksums(real_data: Path) -> None:
    checked = {name: published(dataset) for name, dataset in CATALOGUE.items() if published(dataset)}
    assert set(checked) == {"gowalla", "yelp2018", "amazon-grocery", "foursquare-nyc"}
    for name, expected in checked.items():
        assert set(expected) == set(CATALOGUE[name].files)
        assert expected == {file: sha256((real_data / name / file).read_bytes()) for file in expected}


@pytest.mark.realdata
def test_real_item_names(real_data: Path) -> None:
    frame = item_names(find_dataset("lastfm"), real_data / "lastfm")
    assert frame is not None
    assert frame.height == 17_632
    assert dict(frame.iter_rows())[89] == "Lady Gaga"

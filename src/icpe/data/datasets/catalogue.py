"""The catalogue of data sets: where they come from, under which terms, and how they are read.

This module holds only facts and imports nothing heavy; :mod:`icpe.data.datasets.download` downloads the files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icpe.suggest import unknown_name


@dataclass(frozen=True)
class RemoteFile:
    """One download: a plain file, named by the last part of its URL, or a zip archive with all files of a data set."""

    url: str
    checksum: str | None
    """``sha256:…`` of the download. None if it is unknown: then that of the first download is recorded and compared."""
    archive: bool = False


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue."""

    name: str
    title: str
    source: str
    """Address of the page that describes the data."""
    terms: str
    citation: str
    k_core: int | None
    """The k-core that ``open_log`` takes by default, which is that of the paper's experiments; None if complete."""
    files: tuple[str, ...]
    """Files that the data set's folder must hold. Together they form one log. Empty if the data are generated."""
    remote: tuple[RemoteFile, ...]
    """The downloads. Empty if the data cannot be downloaded; ``by_hand`` then says how to get them."""
    by_hand: str
    """How to get the files without this program."""
    columns: Mapping[str, str | int]
    """The argument ``columns`` for ``Interactions.read``."""
    read_options: Mapping[str, Any]
    """Further keyword arguments for ``Interactions.read``."""
    item_file: str | None
    """File with the names of items for display; optional in the folder."""
    known: Mapping[str, str] = field(default_factory=dict)
    """``sha256:…`` of files that cannot be downloaded, by name."""
    note: str = ""
    """What users should know before they trust results on these data."""


_YELP_TERMS = "Yelp Dataset terms of use: academic, non-commercial use only; the data must not be passed on"
_NGCF_SPLIT = (
    "Wang, He, Wang, Feng, Chua: Neural Graph Collaborative Filtering, SIGIR 2019; "
    "He, Deng, Wang, Li, Zhang, Wang: LightGCN, SIGIR 2020"
)

# URLs name a commit, because the files on a branch can change or disappear. The checksums are those of the files that
# the counts in tests/test_real_data.py come from.
_LIGHTGCN = "https://raw.githubusercontent.com/kuandeng/LightGCN/92c4ce79d46d94b98863b93af6b6cf9617e3e6cf/Data"
_RECHORUS = "https://raw.githubusercontent.com/THUwangcy/ReChorus/e74389752d7b37120e985229d26693ec00b909e5/data"
_STAN_REPOSITORY = "yingtaoluo/Spatial-Temporal-Attention-Network-for-POI-Recommendation"
_STAN = f"https://raw.githubusercontent.com/{_STAN_REPOSITORY}/137b0dc5e568a94b8e92f7e5e7475cb7bfdae2da/data"

_ENTRIES = (
    Dataset(
        name="lastfm",
        title="Last.FM listening (HetRec 2011)",
        source="https://grouplens.org/datasets/hetrec-2011/",
        terms="Non-commercial use, citing the HetRec 2011 workshop and Last.fm; commercial users ask Last.fm",
        citation=(
            "Cantador, Brusilovsky, Kuflik: 2nd Workshop on Information Heterogeneity and Fusion in Recommender "
            "Systems (HetRec 2011), RecSys 2011"
        ),
        k_core=10,
        files=("user_artists.dat",),
        remote=(
            RemoteFile(
                "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
                checksum="sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
                archive=True,
            ),
        ),
        by_hand=(
            "Download hetrec2011-lastfm-2k.zip from https://grouplens.org/datasets/hetrec-2011/ and take "
            "user_artists.dat, and artists.dat for the names, out of it."
        ),
        columns={},
        read_options={"format": "hetrec"},
        item_file="artists.dat",
        note="No timestamps. The weight is the play count; each user lists at most 50 artists.",
    ),
    Dataset(
        name="gowalla",
        title="Gowalla check-ins (split of NGCF and LightGCN, joined)",
        source="https://snap.stanford.edu/data/loc-gowalla.html",
        terms="No formal licence is stated; research use, citing the KDD 2011 paper, is customary",
        citation=(
            "Cho, Myers, Leskovec: Friendship and Mobility: User Movement in Location-Based Social Networks, "
            f"KDD 2011; split: {_NGCF_SPLIT}"
        ),
        k_core=20,
        files=("train.txt", "test.txt"),
        remote=(
            RemoteFile(
                f"{_LIGHTGCN}/gowalla/train.txt",
                checksum="sha256:7244696fdeb23911319cf7b689f2e15a3c4c92549c873a5677b44e3f13cc3e62",
            ),
            RemoteFile(
                f"{_LIGHTGCN}/gowalla/test.txt",
                checksum="sha256:099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
            ),
        ),
        by_hand="Take Data/gowalla/train.txt and test.txt from https://github.com/kuandeng/LightGCN.",
        columns={},
        read_options={"format": "lists"},
        item_file=None,
        note="No timestamps. A user-place pair counts once; the files are a 10-core of the original check-ins.",
    ),
    Dataset(
        name="yelp2018",
        title="Yelp 2018 (split of NGCF and LightGCN, joined)",
        source="https://www.yelp.com/dataset",
        terms=_YELP_TERMS,
        citation=f"Yelp Dataset Challenge, 2018 edition; split: {_NGCF_SPLIT}",
        k_core=20,
        files=("train.txt", "test.txt"),
        remote=(),
        by_hand=(
            "Yelp does not allow passing the data on, so accept its terms at https://www.yelp.com/dataset first. "
            "Then take train.txt and test.txt of the split used by NGCF and LightGCN. Their checksums are compared "
            "when they are opened."
        ),
        columns={},
        read_options={"format": "lists"},
        item_file=None,
        known={
            "train.txt": "sha256:1e9568725a9e833d0ac3bae01c94cd95367f73b3bb6104fd26b5f65ea5054093",
            "test.txt": "sha256:9cd9b37926cd1447a06625ffa7914527573fb097c10cb0bbdb1d1b8ded3742fe",
        },
        note="No timestamps. A user-business pair counts once; the files are a 10-core of the original reviews.",
    ),
    Dataset(
        name="amazon-grocery",
        title="Amazon Grocery and Gourmet Food reviews, 2014 5-core (form of ReChorus)",
        source="https://github.com/THUwangcy/ReChorus/tree/master/data",
        terms="Amazon review data, offered for research, citing the SIGIR 2015 paper",
        citation=(
            "McAuley, Targett, Shi, van den Hengel: Image-Based Recommendations on Styles and Substitutes, SIGIR 2015"
        ),
        k_core=None,
        files=("train.csv",),
        remote=(
            RemoteFile(
                f"{_RECHORUS}/Grocery_and_Gourmet_Food/train.csv",
                checksum="sha256:75847958fbcfec35dd0a20bda43432c22a5d7e5b5fe571fef0b25ff580b475f4",
            ),
        ),
        by_hand="Take data/Grocery_and_Gourmet_Food/train.csv from https://github.com/THUwangcy/ReChorus.",
        columns={"timestamp": "time"},
        read_options={"separator": "\t"},
        item_file=None,
        note=(
            "Time has day resolution. The file lacks each user's last two reviews (the source keeps them for "
            "development and test), so users have at least 3 instead of 5."
        ),
    ),
    Dataset(
        name="yelp2019",
        title="Yelp reviews of 2019 (selection of SSLRec)",
        source="https://www.yelp.com/dataset",
        terms=_YELP_TERMS,
        citation=(
            "Yelp Open Dataset; selection: Ren, Xia, Yang, Wei, Wang, Cai, Huang: SSLRec: A Self-Supervised Learning "
            "Framework for Recommendation, WSDM 2024"
        ),
        k_core=None,
        files=("yelp2019.inter",),
        remote=(),
        by_hand=(
            "Yelp does not allow passing the data on, so accept its terms at https://www.yelp.com/dataset first. "
            "Then write the reviews as tab-separated yelp2019.inter with the header "
            "'user_id:token item_id:token timestamp:float', time in Unix seconds."
        ),
        columns={},
        read_options={"format": "inter"},
        item_file=None,
        note=(
            "Very sparse: a 10-core leaves 395 users. Times seem shifted by eight hours; order and distances hold. "
            "The source's separate test items have no time and are left out."
        ),
    ),
    Dataset(
        name="foursquare-nyc",
        title="Foursquare check-ins in New York, 2012 to 2013 (form of STAN)",
        source=f"https://github.com/{_STAN_REPOSITORY}",
        terms="Published for research, citing the 2015 paper",
        citation=(
            "Yang, Zhang, Zheng, Yu: Modeling User Activity Preference by Leveraging User Spatial Temporal "
            "Characteristics in LBSNs, IEEE Transactions on Systems, Man, and Cybernetics: Systems 45(1), 2015; "
            "form: Luo, Liu, Liu: STAN, WWW 2021"
        ),
        k_core=None,
        files=("NYC.npy",),
        remote=(
            RemoteFile(
                f"{_STAN}/NYC.npy",
                checksum="sha256:9e28b974a52d233e201ff9e82e1c076818c90b1e8f25f4ef93daaf1d7e8ddf55",
            ),
        ),
        by_hand=f"Take data/NYC.npy from https://github.com/{_STAN_REPOSITORY}.",
        columns={"user_id": 0, "item_id": 1, "timestamp": 2},
        read_options={"format": "npy", "time_unit": "min"},
        item_file=None,
        note=(
            "Time counts minutes from an arbitrary start (the source says hours, which the range rules out): use it "
            "for order, not for dates. Users visit the same place many times."
        ),
    ),
    Dataset(
        name="demo",
        title="Generated world with known tastes, power-law exposure and herding",
        source="generated by icpe",
        terms="Free to use; nothing is downloaded",
        citation="None needed",
        k_core=None,
        files=(),
        remote=(),
        by_hand="No files are needed: the data are generated when they are used.",
        columns={},
        read_options={},
        item_file=None,
        note="Not real people: the true preference of every user is known, so debiasing can be measured against it.",
    ),
)

CATALOGUE: Mapping[str, Dataset] = {entry.name: entry for entry in _ENTRIES}


def find_dataset(name: str) -> Dataset:
    """The entry called ``name``.

    Raises:
        ConfigError: the catalogue has no such entry; the message lists all names and suggests the nearest one.

    Example:
        >>> find_dataset("gowalla").k_core
        20
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise unknown_name("data set", name, sorted(CATALOGUE))

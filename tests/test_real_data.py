"""The public data sets give exactly the counts that are known of them."""

import hashlib
import json

import pytest

from icpe import describe, open_log, split
from icpe.runs.config import RunConfig

pytestmark = pytest.mark.realdata

CORES = {
    ("lastfm", 10): (1_797, 1_507, 62_376),
    ("lastfm", 1): (1_892, 17_632, 92_834),
    ("gowalla", 20): (5_992, 5_638, 281_392),
    ("gowalla", 10): (29_857, 40_979, 1_027_343),
    ("yelp2018", 20): (24_369, 18_558, 1_160_194),
    ("amazon-grocery", 1): (14_681, 8_687, 121_892),
    ("amazon-grocery", 5): (6_404, 4_371, 80_226),
    ("yelp2019", 5): (10_172, 10_756, 130_954),
    ("foursquare-nyc", 1): (1_083, 5_135, 36_140),
    ("foursquare-nyc", 10): (829, 1_089, 21_367),
}
GINI = {"lastfm": 0.730, "amazon-grocery": 0.576, "yelp2019": 0.599, "foursquare-nyc": 0.589}


@pytest.mark.parametrize(("name", "k"), CORES, ids=lambda value: str(value))
def test_counts(real_data, name, k):
    log = open_log(name, data_dir=real_data, k_core=k)
    assert (len(log.users), len(log.items), len(log)) == CORES[name, k]


@pytest.mark.parametrize("name", ["lastfm", "amazon-grocery"])
def test_a_name_means_the_same_data_in_python_and_on_the_command_line(real_data, icpe, name):
    code, out, _ = icpe("data", "describe", name, "--data-dir", real_data, "--json")
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(describe(open_log(name, data_dir=real_data)).as_dict()))
    run = RunConfig(data={"source": name, "data_dir": str(real_data)}, split={"kind": "random"})
    assert run.open_parts().manifest["hashes"]["log"] == json.loads(out)["content_hash"]
    assert json.loads(out)["k_core"] == {"lastfm": 10, "amazon-grocery": None}[name]


@pytest.mark.parametrize("name", GINI)
def test_skew(real_data, name):
    assert describe(open_log(name, data_dir=real_data, k_core=1)).gini == pytest.approx(GINI[name], abs=5e-4)


def test_times_and_names(real_data):
    yelp = describe(open_log("yelp2019", data_dir=real_data))
    assert (yelp.first, yelp.last) == ("2018-12-31T16:00:09Z", "2019-12-13T06:35:19Z")
    grocery = describe(open_log("amazon-grocery", data_dir=real_data))
    assert (grocery.first[:10], grocery.last[:10]) == ("2000-08-09", "2014-07-22")
    lastfm = open_log("lastfm", data_dir=real_data)
    assert lastfm.item_names([lastfm.items[int(lastfm.item_counts.argmax())]]).to_list() == ["Lady Gaga"]


def test_published_split_of_gowalla(real_data):
    parts = split.given(real_data / "gowalla" / "train.txt", test=real_data / "gowalla" / "test.txt")
    assert (len(parts.train), len(parts.test)) == (810_128, 217_242)
    assert parts.manifest["dropped"] == {"user or item without training data": 0, "pair is in an earlier part too": 0}
    assert len(parts.train.users) == 29_858


def test_unbiased_splits_of_lastfm(real_data):
    log = open_log("lastfm", data_dir=real_data)
    quota, ips = split.unbiased(log, seed=0), split.unbiased(log, seed=0, mode="ips")
    assert quota.moved == 0
    assert (quota.test.item_counts + quota.valid.item_counts).std() < 1
    deviation = ips.test.item_counts.std() / ips.test.item_counts.mean()
    assert deviation < 0.5 * (log.item_counts.std() / log.item_counts.mean())
    digest = hashlib.sha256(repr(sorted(quota.manifest["hashes"].items())).encode()).hexdigest()
    assert digest[:12] == "cb91b9450593"

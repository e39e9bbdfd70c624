"""All names of settings of version 0.1 are still understood."""

import pytest

from icpe import MF
from icpe.methods import make_method
from icpe.runs.earlier_versions import renamed

VERSION_0_1 = {
    "invpref": {
        "environments": 3,
        "every": 2,
        "alpha": 0.5,
        "invariant": 0.6,
        "aware": 0.7,
        "adversary": 0.8,
        "weighs": "none",
        "negatives": 2,
        "squares": 0.1,
        "sizes": 0.2,
        "reg": 0.3,
    },
    "ips": {"loss": "bpr", "negatives": 2, "gamma": 0.5, "clip_pct": 90.0, "norm": "max", "reg": 0.1},
    "ubpr": {"negatives": 2, "gamma": 0.7, "beta": 0.1, "reg": 0.2},
    "relmf": {"loss": "log", "negatives": 2, "gamma": 0.7, "eps": 0.1, "reg": 0.2},
    "pd": {"negatives": 2, "gamma": 0.2, "inject": 0.3, "reg": 0.1},
    "penalty": {"loss": "softmax", "negatives": 8, "temperature": 0.3, "reg": 0.1, "c": 0.4},
    "logit_adjustment": {"loss": "bce", "negatives": 2, "temperature": 0.3, "reg": 0.1, "kappa": 0.4},
    "in_batch": {"temperature": 0.3, "correction": 0.4, "reg": 0.1},
    "popularity": {},
    "random": {},
}


@pytest.mark.parametrize("name", VERSION_0_1)
def test_all_old_settings_are_read(name):
    old = VERSION_0_1[name]
    settings = make_method(name, MF(dim=4), **renamed(name, old)).settings.as_dict()
    assert settings.pop("beta") is None  # the dial is new; a setting of the same name now has another one
    assert settings.pop("boost") is None
    assert sorted(map(str, settings.values())) == sorted(map(str, old.values()))
    current = {**settings, "beta": 0.5}
    assert renamed(name, current) == current  # current names are not changed

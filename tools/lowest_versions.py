"""Print the lowest versions that pyproject.toml allows, as constraints for pip: ``make test-lowest``.

python tools/lowest_versions.py [EXTRA ...] > lowest.txt
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HIGHER = {
    # The lowest version with a build for the processor on the index of packages; older ones install CUDA packages of
    # several gigabytes, or have to be taken from the index of PyTorch. The code is written for 2.4.
    "torch": "2.13.0",
}
"""Packages whose lowest version cannot be installed everywhere, and the version that is tested instead."""
REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)")


def lowest(extras: list[str]) -> list[str]:
    """Return ``name==version`` for every bound of the dependencies and of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    found = [REQUIREMENT.match(line) for line in lines]
    return [f"{one[1]}=={HIGHER.get(one[1], one[2])}" for one in found if one]


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))

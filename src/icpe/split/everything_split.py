"""No split: the whole log is the training part."""

import numpy as np

from icpe.data.interactions import Interactions
from icpe.split.parts import Parts


def everything(log: Interactions) -> Parts:
    """Parts whose training part is the whole log; nothing is held out.

    Example:
        >>> log = Interactions.read({"user_id": [1, 2], "item_id": [3, 4]})
        >>> parts = everything(log)
        >>> len(parts.train), len(parts.valid), len(parts.test)
        (2, 0, 0)
    """
    none = log.keep(np.zeros(len(log), bool))
    return Parts(log, none, none, {"split": "everything"}, log=log)

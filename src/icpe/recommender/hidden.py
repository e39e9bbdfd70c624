"""The one rule for which pairs are hidden from the lists that an evaluation judges."""

from typing import Literal

from icpe.data.interactions import Interactions

Part = Literal["valid", "test"]


def hidden_for(part: Part, train: Interactions, valid: Interactions | None) -> list[Interactions]:
    """Return the logs whose pairs may not appear in the lists of a part.

    At validation a user's training items are hidden. At test the validation items are hidden too: they are known by
    then, and a list that repeats them would waste its places.
    """
    return [train] if part == "valid" or valid is None else [train, valid]

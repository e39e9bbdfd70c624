"""The rule for which pairs are hidden from the lists in an evaluation. All evaluations use this one."""

from typing import Literal

from icpe.data.interactions import Interactions

Part = Literal["valid", "test"]


def hidden_for(part: Part, train: Interactions, valid: Interactions | None) -> list[Interactions]:
    """Return the logs whose pairs may not appear in the lists of a part.

    In a validation, the training items of a user are hidden. In a test, the validation items are hidden too: they are
    known by then, and recommending them would waste places in the list.
    """
    return [train] if part == "valid" or valid is None else [train, valid]

"""The random numbers of a visit. They depend on the seed, the round and the visit, never on the arm."""

from dataclasses import dataclass

from icpe.rng import stream
from icpe.simulate.settings import LoopSettings
from icpe.types import FloatArray


@dataclass(frozen=True, eq=False)
class VisitDraws:
    """Uniform random numbers of one visit, one row per user, whether the user visits or not.

    Attributes:
        active: [users], whether the user visits.
        again: [users], whether the user returns to something that they have.
        follow: [users], whether the visit follows the list.
        look: [users, n], whether the user looks at a place of the list.
        accept: [users, n], whether the user accepts the item there.
        found: [users, candidates], which items the user finds without a recommender.
        liked: [users, candidates], which of these the user likes at that moment.
    """

    active: FloatArray
    again: FloatArray
    follow: FloatArray
    look: FloatArray
    accept: FloatArray
    found: FloatArray
    liked: FloatArray


def draw_visit(seed: int, number: int, visit: int, users: int, settings: LoopSettings) -> VisitDraws:
    """The random numbers of all users for one visit of a round.

    Every purpose has a stream of its own, so all arms of a simulation meet the same users in the same moods, and a
    difference between arms is never a difference in luck.

    Args:
        seed: seed of the simulation.
        number: of the round.
        visit: number of the visit within the round.
        users: number of users.
        settings: lengths of the lists.
    """

    def uniform(purpose: str, *width: int) -> FloatArray:
        return stream(seed, f"simulate/{number}/{visit}/{purpose}").random((users, *width))

    n, candidates = settings.n, settings.candidates
    return VisitDraws(
        uniform("active"),
        uniform("again"),
        uniform("follow"),
        uniform("look", n),
        uniform("accept", n),
        uniform("found", candidates),
        uniform("liked", candidates),
    )


def draw_exploration(seed: int, number: int, users: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Uniform random numbers for the lists of a round, each [users, n]: whether a place explores, and which item."""
    chance, item = (stream(seed, f"simulate/{number}/explore/{one}").random((users, n)) for one in ("chance", "item"))
    return chance, item

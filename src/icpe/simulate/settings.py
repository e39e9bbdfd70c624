"""Settings of the feedback loop."""

from icpe.settings import Settings, setting


class LoopSettings(Settings):
    """Settings of the feedback loop."""

    rounds: int = setting(20, "Number of rounds.", least=1)
    retrain: int = setting(5, "Number of rounds after which every method is trained again, on its own log.", least=1)
    warm: bool = setting(False, "Whether trainings after the first start from the arm's previous model.")
    visits: int = setting(3, "Largest number of visits of a user in a round.", least=1)
    n: int = setting(10, "Length of the lists.", least=1)
    position_bias: float = setting(
        1.0, "Place k of a list is looked at with probability k to the power of minus this number.", least=0.0
    )
    explore: float = setting(
        0.0, "Share of the places of all lists that show a random item instead of the ranked one.", least=0.0, most=1.0
    )
    candidates: int = setting(10, "Number of items that a user finds without a recommender in a visit.", least=1)
    herding: float = setting(
        0.5,
        "Share of the items found without a recommender that follows popularity; the rest follows the exposure that "
        "the world started with.",
        least=0.0,
        most=1.0,
    )
    repeat: float = setting(
        0.0,
        "Share of the visits in which users return to something that they have, so that nothing new is consumed.",
        least=0.0,
        below=1.0,
    )
    drift: float = setting(
        0.0, "How far tastes move from round to round: 0 not at all, 1 to an unrelated taste.", least=0.0, most=1.0
    )
    new_users: int = setting(0, "Number of users who join in every round after the first.", least=0)
    new_items: int = setting(0, "Number of items that join in every round after the first.", least=0)

"""Column names of all frames that the package reads or returns."""

USER = "user_id"
ITEM = "item_id"
TIME = "timestamp"
WEIGHT = "weight"

SCORE = "score"
RANK = "rank"

NAME = "name"

REQUIRED = (USER, ITEM)
OPTIONAL = (TIME, WEIGHT)
INTERACTION = REQUIRED + OPTIONAL
RECOMMENDATION = (*REQUIRED, SCORE, RANK)

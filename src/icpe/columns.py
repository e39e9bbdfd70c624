"""The column names of every frame that enters or leaves the package."""

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

"""Requests and answers of the service, with their limits. The OpenAPI description is generated from them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

LONGEST_LIST = 1_000
MOST_IDS = 10_000
LONGEST_HISTORY = 1_000
LARGEST_BATCH = 256
LARGEST_BETA = 1e6

WholeNumber = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]
Text = Annotated[StrictStr, Field(max_length=512)]
Id = WholeNumber | Text
Ids = Annotated[list[Id], Field(max_length=MOST_IDS)]
Name = Annotated[StrictStr, Field(max_length=64)]
Length = Annotated[StrictInt, Field(ge=1, le=LONGEST_LIST)]


_ID = "an id: a whole number, or a text of at most 512 characters"
EXPECTED = {
    "user_id": _ID,
    "item_id": _ID,
    "id": _ID,
    "prefix": "a text of at most 512 characters",
    "history": f"a list of 1 to {LONGEST_HISTORY:,} ids",
    "n": f"a whole number from 1 to {LONGEST_LIST:,}",
    "beta": f"a finite number from {-LARGEST_BETA:,.0f} to {LARGEST_BETA:,.0f}",
    "allow": f"a list of at most {MOST_IDS:,} ids",
    "deny": f"a list of at most {MOST_IDS:,} ids",
    "hide_seen": "true or false",
    "model": "the name of a model, a text of at most 64 characters",
    "models": "a list of at most 64 names of models",
    "unknown": "'error' or 'popular'",
    "requests": f"a list of 1 to {LARGEST_BATCH} objects, each a request like that of /v1/recommend",
}
"""What each field of a request takes, in words for messages."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class RecommendRequest(_Request):
    """Whose list to make, and how."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["user_id"]}, {"required": ["history"]}]})

    user_id: Id | None = Field(None, description="A user of the training data. Ids have the type of the log.")
    history: Annotated[list[Id], Field(min_length=1, max_length=LONGEST_HISTORY)] | None = Field(
        None,
        description="Items that a new user has used. The list follows them instead of the training data; a user_id "
        "beside them only decides which model answers.",
    )
    n: Length = Field(20, description="Length of the list. It is shorter where fewer items are left.")
    beta: Annotated[float, Field(ge=-LARGEST_BETA, le=LARGEST_BETA, strict=True)] | None = Field(
        None, description="Setting of the dial for this list. Default: the setting of the model."
    )
    allow: Ids | None = Field(None, description="Recommend only these items.")
    deny: Ids = Field([], description="Recommend none of these items.")
    hide_seen: bool = Field(True, strict=True, description="Whether to leave out what the user has used already.")
    model: Name | None = Field(None, description="Name of the model. Default: the model of the user's share.")
    unknown: Literal["error", "popular"] = Field(
        "error", description="For users the model does not know: an error, or the most popular items."
    )

    @model_validator(mode="after")
    def _says_whose(self) -> "RecommendRequest":
        if self.user_id is None and self.history is None:
            raise ValueError("send user_id, or history with the items that a new user has used")
        return self


class BatchRequest(_Request):
    """Several requests at once."""

    requests: list[RecommendRequest] = Field(min_length=1, max_length=LARGEST_BATCH)


class SimilarRequest(_Request):
    """The item whose neighbours to list."""

    item_id: Id
    n: Length = 20
    model: Name | None = Field(None, description="Name of the model. Default: the first model.")


class ReloadRequest(_Request):
    """What to load again."""

    models: list[Name] | None = Field(None, max_length=64, description="Names of models. Default: all.")


class Item(BaseModel):
    """A recommended item."""

    item_id: int | str
    score: float
    rank: int = Field(description="1 is the best.")
    head: bool = Field(description="Whether the item belongs to the most popular fifth.")


class RecommendAnswer(BaseModel):
    """A list, and what made it."""

    items: list[Item]
    model: str
    model_version: str = Field(description="Changes whenever the files of the model change.")
    beta: float = Field(description="Setting of the dial behind this list.")
    basis: Literal["user", "history", "popular"] = Field(description="What the list is based on.")
    ignored: int = Field(description="Number of ids in history, allow and deny that the model does not know.")


class SimilarAnswer(BaseModel):
    """The nearest items by the cosine of their representations."""

    items: list[Item]
    model: str
    model_version: str


class Problem(BaseModel):
    """What is wrong with a request."""

    code: str
    message: str
    fields: list[str] = Field([], description="The fields at fault, such as requests.0.n.")


class ErrorAnswer(BaseModel):
    """An error."""

    error: Problem


class BatchAnswer(BaseModel):
    """Answers in the order of the requests. One that cannot be met has an error in its place."""

    answers: list[RecommendAnswer | ErrorAnswer]


class ModelInfo(BaseModel):
    """A served model."""

    name: str
    version: str
    method: str
    backbone: str
    users: int
    items: int
    beta: float
    boost: float = Field(description="What every list of this model adds to the scores of niche items.")
    share: float = Field(description="Share of the users whom this model answers.")
    default: bool
    has_front: bool
    user_id_example: int | str
    item_id_example: int | str


class ModelsAnswer(BaseModel):
    """All served models, the default one first."""

    models: list[ModelInfo]


class ReloadAnswer(BaseModel):
    """Versions that are served now, by model, and the models that changed."""

    versions: dict[str, str]
    changed: list[str]
    workers: int = Field(description="Number of processes that serve these versions.")


class Health(BaseModel):
    """State of the service."""

    status: str

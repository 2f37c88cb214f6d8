"""Words of the language that cannot name a definition or a class."""

SUBJECTS = (
    "time", "weekday", "date", "size", "owner", "last_access", "last_modified",
    "client", "method", "host", "load", "nodes",
)  # fmt: skip
WITH_ARGUMENT = ("header", "cookie")
RESERVED = frozenset(
    {
        *SUBJECTS, *WITH_ARGUMENT, "set", "let", "shadow", "hard", "as", "and", "or", "not", "in", "like", "of",
        "within", "before", "accessed", "links", "default", "all", "capacity", "always", "equal", "rest", "serve",
        "deny",
    }
)  # fmt: skip

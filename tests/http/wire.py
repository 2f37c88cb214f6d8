"""Hypothesis strategy for text from the wire: arbitrary bytes, decoded as the parser decodes them."""

from hypothesis import strategies as st


def wire_text(likely: str) -> st.SearchStrategy[str]:
    """Arbitrary bytes, or arbitrary arrangements of the characters and words that matter to a parser."""
    arbitrary = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))
    near_miss = st.lists(st.sampled_from([*likely, *likely.split()]), max_size=40).map("".join)
    return arbitrary | near_miss | st.lists(arbitrary | near_miss, max_size=4).map("".join)

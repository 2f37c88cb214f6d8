"""Escapes text from elsewhere for the terminal, so that it cannot move the cursor, change colours or hide lines."""


def escape_controls(text: str) -> str:
    """``text`` with everything that is not printable, also line breaks, as Python escapes such as ``\\x1b``."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

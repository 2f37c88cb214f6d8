"""Error pages: gives an error response the form that its client wants, as JSON, or the one that the operator wrote.

``--error-pages DIR`` has pages such as ``404.html`` and ``503.html``; ``4xx.html`` and ``5xx.html`` are for the other
statuses. They are read at the start and at SIGHUP, so that an error costs no access to the disk: each page with its
head is prepared once for each status.
Neighbours: ``answers`` has the plain form of an error; ``qosweb.http.problems`` has the JSON form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from qosweb.errors import UsageError
from qosweb.http.problems import preferred_json_type, problem_body
from qosweb.server.request.answers import ERROR_STATUSES, HTML, Answer, body_fields, phrase_of, serialise_head

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAGE_LEN_MAX = 256 << 10

_NAME = re.compile(r"([45])(?:[0-9]{2}|xx)\.html")


class ErrorPage(NamedTuple):
    head: bytes  # without the fields of one response
    body: bytes


class ErrorPages:
    """The pages of a node, by status. Without a folder errors have their plain form."""

    def __init__(self, folder: Path | None) -> None:
        """Raises UsageError if the folder or a page in it cannot be used."""
        self._folder = folder
        self._pages: dict[int, ErrorPage] = {}
        self.replace(self.read())

    def read(self) -> dict[int, ErrorPage]:
        """Read the pages. Raises UsageError."""
        if self._folder is None:
            return {}
        bodies = _read_folder(self._folder)
        found = {
            status: bodies.get(f"{status}.html", bodies.get(f"{status // 100}xx.html")) for status in ERROR_STATUSES
        }
        return {
            status: ErrorPage(serialise_head(status, body_fields(status, HTML, len(body))), body)
            for status, body in found.items()
            if body is not None
        }

    def replace(self, pages: dict[int, ErrorPage]) -> None:
        self._pages = pages

    def present(self, answer: Answer, accept: Sequence[str]) -> Answer:
        """An error response in the form for a client with these lines of Accept. Other responses stay as they are."""
        error = answer.error
        if error is None:
            return answer
        json_type = preferred_json_type(accept, "text/html") if accept else None
        if json_type is not None:
            body = problem_body(answer.status, phrase_of(answer.status), error.reason)
            head = serialise_head(answer.status, [*body_fields(answer.status, json_type, len(body)), *error.fields])
        elif (page := self._pages.get(answer.status)) is not None:
            body = page.body
            head = page.head + b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in error.fields)
        else:
            return answer
        return Answer(answer.status, head, (body,) if answer.body else (), answer.must_close)


def _read_folder(folder: Path) -> dict[str, bytes]:
    bodies: dict[str, bytes] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix == ".html":
                if not _NAME.fullmatch(path.name):
                    raise UsageError(f"--error-pages {path}: not the name of a status, such as 404.html or 5xx.html")
                bodies[path.name] = _read_page(path)
    except FileNotFoundError:
        raise UsageError(f"--error-pages {folder}: there is no such folder") from None
    except NotADirectoryError:
        raise UsageError(f"--error-pages {folder}: not a folder") from None
    except OSError as error:
        raise UsageError(f"--error-pages {error.filename or folder}: {error.strerror}") from None
    if not bodies:
        raise UsageError(f"--error-pages {folder}: has no page; name pages 404.html, 503.html, 4xx.html or 5xx.html")
    return bodies


def _read_page(path: Path) -> bytes:
    if not path.is_file():
        raise UsageError(f"--error-pages {path}: not a file")
    with path.open("rb") as file:
        body = file.read(PAGE_LEN_MAX + 1)
    if not body:
        raise UsageError(f"--error-pages {path}: the file is empty")
    if len(body) > PAGE_LEN_MAX:
        raise UsageError(f"--error-pages {path}: larger than {PAGE_LEN_MAX >> 10} KB")
    try:
        body.decode()
    except UnicodeDecodeError:
        raise UsageError(f"--error-pages {path}: not UTF-8") from None
    return body

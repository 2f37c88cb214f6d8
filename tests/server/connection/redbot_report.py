"""REDbot's notes on some URLs, as JSON: ``python -m tests.server.connection.redbot_report URL...``.

REDbot has its own event loop, so it runs in its own process. For each URL it makes the request itself and four more
(ranges, both validators, content negotiation); the notes on all five responses are reported.
"""

import json
import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource


def notes_on(answer: HttpResource) -> list[tuple[str, str]]:
    """Level and summary of every note, including nested ones."""
    found = []
    pending = list(answer.response.notes)
    while pending:
        note = pending.pop()
        found.append((note.level.value, f"{answer.check_name}: {note.summary}"))
        pending.extend(note.subnotes)
    if answer.fetch_error is not None:
        found.append(("bad", f"{answer.check_name}: {answer.fetch_error!r}"))
    return found


def main(urls: list[str]) -> None:
    settings = ConfigParser()
    settings.read_dict({"redbot": {"enable_local_access": "True"}})
    resources = {url: HttpResource(settings["redbot"]) for url in urls}
    unfinished = set(urls)

    def done(url: str) -> None:
        unfinished.discard(url)
        if not unfinished:
            thor.stop()

    for url, resource in resources.items():
        resource.set_request(url)
        resource.once("check_done", lambda url=url: done(url))
        resource.check()
    if unfinished:
        thor.run()
    report = {
        url: {
            "status": resource.response.status_code,
            "notes": [note for answer in (resource, *resource.subreqs.values()) for note in notes_on(answer)],
            "supports": {
                "ranges": resource.partial_support,
                "If-None-Match": resource.inm_support,
                "If-Modified-Since": resource.ims_support,
                "gzip": resource.gzip_support,
            },
        }
        for url, resource in resources.items()
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])

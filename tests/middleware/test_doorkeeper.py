"""Doorkeeper, used directly as an adapter for another framework would use it."""

from __future__ import annotations

import asyncio
import json

import pytest

from qosweb import middleware
from qosweb.errors import UsageError
from qosweb.middleware import ApplicationRequest, Denial, Doorkeeper, Permit, response_body, response_fields
from tests.cluster.runtime.loops import eventually, run

SPEC = 'set channel = 64KB in 1s\n</a>.server_resource = 25%\ncookie("plan") = "free" => </b>.num_requests < 1\n'
ONE_CHANNEL = "64KB/s"


def request(target: str = "/a?x=1", *fields: tuple[str, str]) -> ApplicationRequest:
    return ApplicationRequest("GET", target, [("host", "Shop.Example:80"), *fields], "192.0.2.1")


def test_a_request_has_the_facts_that_conditions_use() -> None:
    asked = request("/a/../b%20c?x=1", ("Cookie", "a=1"), ("cookie", "b=2"))
    assert (asked.host, asked.path, asked.client, asked.file) == ("shop.example:80", None, "192.0.2.1", None)
    assert asked.field_lines("COOKIE") == ["a=1", "b=2"]
    assert asked.field_lines("Range") == []
    assert request("/b%20c?x=1").path == "/b c"


def test_a_permit_is_closed_and_the_next_request_gets_it() -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC, capacity=ONE_CHANNEL)
        permit = await door.enter(request())
        assert isinstance(permit, Permit)
        assert response_fields(permit) == [("QoS-Class", "/a"), ("QoS-Decision", "served")]
        following = asyncio.create_task(door.enter(request("/b")))
        await eventually(lambda: door.waiting() == {"/b": 1})
        permit.close(100)
        assert isinstance(await following, Permit)
        await door.close()

    run(story)


def test_the_client_behind_a_trusted_proxy() -> None:
    async def story() -> None:
        door = Doorkeeper("client in 10.0.0.0/8 => </**>.server_resource > 1%\n", trust_proxy=["192.0.2.1/32"])
        forwarded = request("/a", ("X-Forwarded-For", "10.0.0.7"))
        direct = ApplicationRequest("GET", "/a", [("X-Forwarded-For", "10.0.0.7")], "192.0.2.2")
        classes = []
        for one in (forwarded, direct):
            permit = await door.enter(one)
            assert isinstance(permit, Permit)
            classes.append(permit.account.name)
            permit.close(0)
        assert (forwarded.client, direct.client) == ("10.0.0.7", "192.0.2.2")
        assert classes[0] != classes[1]
        await door.close()

    run(story)
    with pytest.raises(UsageError, match=r"^trust_proxy: '10.0.0.1/8' is not a network"):
        Doorkeeper(SPEC, trust_proxy=["10.0.0.1/8"])


def test_a_file_name_in_place_of_a_specification_is_explained() -> None:
    with pytest.raises(UsageError, match=r"use Doorkeeper\.from_file$"):
        Doorkeeper("shop.webqos")


def test_a_denial_says_why() -> None:
    async def story() -> None:
        door = Doorkeeper("set lifetime = 10ms\n" + SPEC, capacity=ONE_CHANNEL)
        first = await door.enter(request())
        assert isinstance(first, Permit)
        denial = await door.enter(request("/b", ("Cookie", "plan=free")))
        assert isinstance(denial, Denial)
        fields = dict(response_fields(denial))
        assert fields["QoS-Decision"] == f"denied; reason={denial.reason}"
        assert int(fields["Retry-After"]) >= 1
        assert (denial.status, fields["QoS-Class"]) == (503, denial.account.name)
        assert response_body(denial, request()) == ("text/plain; charset=utf-8", f"{denial.text}\n".encode())
        media_type, body = response_body(denial, request("/b", ("Accept", "application/json, */*;q=0.1")))
        assert (media_type, json.loads(body)["detail"]) == ("application/json", denial.text)
        assert fields["Vary"] == "Accept"
        await door.close()

    run(story)


def test_a_task_cancelled_when_admitted_releases_its_permit() -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC, capacity=ONE_CHANNEL)
        for turns in range(4):  # of the event loop, between the decision and the cancellation
            permit = await door.enter(request())
            waiter = asyncio.create_task(door.enter(request()))
            await eventually(lambda: door.waiting() == {"/a": 1})
            assert isinstance(permit, Permit)
            permit.close(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            was_late = not waiter.cancel()
            (found,) = await asyncio.gather(waiter, return_exceptions=True)
            if was_late:
                assert isinstance(found, Permit)
                found.close(0)
            else:
                assert isinstance(found, asyncio.CancelledError)
            last = await door.enter(request())  # would wait for ever for a channel that was lost
            assert isinstance(last, Permit)
            last.close(0)
        await door.close()

    run(story)


def test_everything_public_is_documented() -> None:
    assert all(getattr(middleware, name).__doc__ for name in middleware.__all__)

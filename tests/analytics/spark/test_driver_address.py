"""Where workers find the session: on the loopback with them, or at the address that this machine has towards them."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

import pytest

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark.driver_address import ELSEWHERE, address_for, towards
from qosweb.analytics.spark.session import session_environment, session_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("master", "asked"),
    [
        ("spark://10.1.2.3:7077", "10.1.2.3"),
        ("spark://one.example:7077,two.example:7077", "one.example"),
        ("spark://[fd00::1]:7077", "fd00::1"),
        ("k8s://https://10.1.2.3:6443", "10.1.2.3"),
        ("k8s://cluster.example", "cluster.example"),
        ("yarn", ELSEWHERE),
    ],
)
def test_a_master_elsewhere_is_told_the_address_towards_it(master: str, asked: str) -> None:
    hosts: list[str] = []

    def route(host: str) -> str:
        hosts.append(host)
        return "10.1.2.99"

    assert address_for(master, route) == "10.1.2.99"
    assert hosts == [asked]


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]", "spark://127.0.0.1:7077"])
def test_with_workers_on_this_machine_nobody_else_can_come(master: str) -> None:
    assert address_for(master) == "127.0.0.1"


def test_an_address_that_is_not_this_machines_is_never_given() -> None:
    """Whatever the way to elsewhere is: something can be bound to where it begins."""
    try:
        own = towards(ELSEWHERE)
    except OSError:
        pytest.skip("needs a route to elsewhere")
    with socket.socket(type=socket.SOCK_DGRAM) as here:
        here.bind((own, 0))
    assert ipaddress.ip_address(own) != ipaddress.ip_address(ELSEWHERE)


def test_spark_is_told_the_address_in_all_three_places(tmp_path: Path) -> None:
    settings = session_settings(tmp_path, tmp_path, "10.1.2.99")
    assert {settings["spark.driver.host"], settings["spark.driver.bindAddress"]} == {"10.1.2.99"}
    assert session_environment(tmp_path, tmp_path, tmp_path, "10.1.2.99")["SPARK_LOCAL_IP"] == "10.1.2.99"


def test_a_master_that_is_nowhere_is_told_in_one_line() -> None:
    def nowhere(_: str) -> str:
        raise OSError(101, "Network is unreachable")

    with pytest.raises(AnalyticsUnavailableError, match=r"^no Spark session on spark://far:7077: no way to far \(Netw"):
        address_for("spark://far:7077", nowhere)

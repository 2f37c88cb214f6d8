"""The specifications in ``webqos_specs`` have no errors, are canonical, and do what their comments say."""

from pathlib import Path

import pytest

from qosweb.webqos import Environment, compile_policy
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.terms import Terms, terms_of
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.syntax.printer import print_tree
from qosweb.webqos.values import PPM
from tests.webqos.support import Facts, class_of, model_of, shares_of

SPECS = Path(__file__).parents[2] / "webqos_specs"
FILES = sorted(SPECS.rglob("*.webqos"))
EXPERIMENTS = (
    "shares-16k", "shares-128k", "always-16k", "always-128k", "sizes", "flash-crowd", "contention", "throughput",
    "response", "scale-out", "partition", "successive-failures", "peers", "upstream", "upstream-failing",
    "processor", "line",
)  # fmt: skip
MONDAY_NOON = Environment(time_s=12 * 3600, weekday=0)
MB = 1 << 20


def text_of(name: str) -> str:
    return (SPECS / f"{name}.webqos").read_text("utf-8")


def terms(text: str, name: str, environment: Environment | None = None) -> Terms:
    model = model_of(text)
    coverage = Coverage(model)
    number = [one.name for one in model.classes].index(name)
    return terms_of(model, coverage, bind(model, coverage, environment or Environment()), number)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_specification_has_no_mistakes_and_is_canonical(path: Path) -> None:
    source = Source(path.name, path.read_text("utf-8"))
    assert compile_policy(source.text).diagnostics == []
    assert print_tree(source, parse(source)[0]) == source.text
    assert source.text.startswith("# ")


def test_every_experiment_and_ten_situations() -> None:
    assert {path.stem for path in (SPECS / "experiments").iterdir()} == set(EXPERIMENTS)
    assert len(list((SPECS / "cookbook").iterdir())) == 10


def test_the_paper() -> None:
    text = text_of("paper")
    model = model_of(text)
    assert class_of(model, "/free/x", "www.commerce.com") == "www.commerce.com/free"
    assert class_of(model, "/paid/full/x", "www.commerce.com:8080") == "www.commerce.com/paid/full"
    assert class_of(model, "/", "www.commerce.com") == "www.commerce.com/index"
    assert class_of(model, "/free/x", "other.com") == "default"
    shares = shares_of(text)
    assert shares["www.commerce.com/free"] <= 0.1
    assert shares["www.commerce.com/paid/full"] >= 0.5
    assert shares["/page"] == 0.3


@pytest.mark.parametrize("size", ["16k", "128k"])
def test_shares(size: str) -> None:
    shares = shares_of(text_of(f"experiments/shares-{size}"))
    assert shares == {"/a": 0.35, "/b": 0.25, "/c": 0.2, "/d": 0.12, "/e": 0.08, "default": 0}


@pytest.mark.parametrize("size", ["16k", "128k"])
def test_always(size: str) -> None:
    text = text_of(f"experiments/always-{size}")
    everything = dict.fromkeys(("/b", "/c", "/d", "/e"), 1.0)
    shares = shares_of(text, {"/a": 0.2, **everything})
    assert shares == {"/a": 0.2, "/b": 0.24, "/c": 0.24, "/d": 0.16, "/e": 0.16, "default": 0}
    assert terms(text, "/a").always
    assert terms(text, "/a").lifetime_ms is None
    assert terms(text, "/b").lifetime_ms == 500


def test_sizes() -> None:
    assert shares_of(text_of("experiments/sizes")) == {"/16k": 0.1, "/32k": 0.35, "/64k": 0.55, "default": 0}


def test_flash_crowd() -> None:
    text = text_of("experiments/flash-crowd")
    calm = dict.fromkeys(("/a", "/b", "/c", "/d", "/e"), 0.15)
    crowd = shares_of(text, {**calm, "/a": 1.0})
    assert [crowd[name] for name in ("/b", "/c", "/d", "/e")] == [0.15] * 4
    assert crowd["/a"] == 0.4
    assert shares_of(text, dict.fromkeys(calm, 1.0))["/a"] == 0.2


def test_contention() -> None:
    text = text_of("experiments/contention")
    assert shares_of(text, {"/a": 0.45, "/b": 0.25}) == {"/a": 0.45, "/b": 0.25, "default": 0}
    assert shares_of(text, {"/a": 1.3, "/b": 0.7}) == {"/a": 0.5, "/b": 0.5, "default": 0}


def test_throughput_response_scale_partition_failures() -> None:
    assert shares_of(text_of("experiments/throughput"), {"/a": 1, "/b": 1})["/a"] == 0.5
    assert terms(text_of("experiments/response"), "/a").lifetime_ms == 4000
    scale = text_of("experiments/scale-out")
    asks = {"/a": 1.0, "/b": 1.0, "/c": 1.0}
    one = shares_of(scale, asks, Environment(nodes=1, capacity_bps=20 * MB))
    three = shares_of(scale, asks, Environment(nodes=3, capacity_bps=60 * MB))
    assert one["/c"] == three["/c"] == pytest.approx(10 * 16 / (20 * 1024), abs=1e-3)
    assert terms(text_of("experiments/partition"), "/orders").in_minority == "deny"
    assert terms(text_of("experiments/partition"), "/a").in_minority == "serve"
    assert shares_of(text_of("experiments/successive-failures"))["/b"] == 0.3


# The cookbook


def test_news_in_a_flash_crowd() -> None:
    text = text_of("cookbook/01-news-flash-crowd")
    quiet = {"/politics": 0.1, "/sport": 0.1, "/weather": 0.05}
    crowd = shares_of(text, {**quiet, "/live": 5.0})
    assert [crowd[name] for name in quiet] == list(quiet.values())
    assert crowd["/live"] == 0.75, "what the others leave goes to the story"
    busy = shares_of(text, {"/politics": 1.0, "/sport": 1.0, "/weather": 1.0, "/live": 5.0})
    assert busy["/live"] <= 0.4
    assert min(busy["/politics"], busy["/sport"]) >= 0.15
    assert terms(text, "/index.html").always


def test_api_tiers() -> None:
    text = text_of("cookbook/02-api-tiers")
    model = model_of(text)
    for plan, name in (("gold", "gold"), ("silver", "silver"), ("bronze", "/api"), (None, "/api")):
        facts = Facts(texts={} if plan is None else {"header x-plan": plan})
        assert class_of(model, "/api/v1/x", facts=facts) == name
    shares = shares_of(text)
    assert shares["gold"] >= 0.5
    assert shares["silver"] >= 0.25
    assert shares["/api"] <= 0.1


def test_nightly_batch() -> None:
    text = text_of("cookbook/03-nightly-batch")
    asks = {"/reports": 1.0, "/app": 1.0}
    assert shares_of(text, asks, MONDAY_NOON) == {"/reports": 0.05, "/app": 0.95, "default": 0}
    night = shares_of(text, asks, Environment(time_s=23 * 3600))
    assert night == {"/reports": 0.5, "/app": 0.5, "default": 0}
    sunday = shares_of(text, {"/reports": 1.0, "/app": 0.1}, Environment(time_s=12 * 3600, weekday=6))
    assert sunday["/reports"] == 0.9, "idle capacity is nobody's"


def test_crawlers() -> None:
    text = text_of("cookbook/04-crawlers")
    model = model_of(text)
    robot = Facts(texts={"header user-agent": "Mozilla/5.0 (compatible; GoogleBot/2.1)"})
    person = Facts(texts={"header user-agent": "Mozilla/5.0 Firefox"})
    assert class_of(model, "/a", facts=robot) == "default#robots"
    assert class_of(model, "/a", facts=person) == "default"
    limited = shares_of(text, {"default#robots": 1.0, "default": 0.2}, Environment(capacity_bps=MB))
    assert limited["default#robots"] == pytest.approx(5 * 16 / 1024, abs=1e-3), "also when the rest is idle"
    assert terms(text, "default#robots").lifetime_ms == 100
    crowded = shares_of(text, {"default#robots": 1.0, "default": 1.0}, Environment(capacity_bps=MB))
    assert crowded["default#robots"] == 0, "people first"
    assert terms(text, "/robots.txt").always


def test_downloads_by_size() -> None:
    text = text_of("cookbook/05-downloads-by-size")
    model = model_of(text)
    outside, inside = {"client": "192.0.2.1"}, {"client": "fd00::7"}
    assert class_of(model, "/dl/a.iso", facts=Facts({"size": 11 * MB}, outside)) == "large-downloads"
    assert class_of(model, "/dl/a.iso", facts=Facts({"size": 11 * MB}, inside)) == "our-downloads"
    assert class_of(model, "/dl/a.txt", facts=Facts({"size": 3}, outside)) == "/dl/**"
    shares = shares_of(text, {"large-downloads": 1.0}, Environment(capacity_bps=100 * MB))
    assert shares["large-downloads"] == 0.02


def test_new_content() -> None:
    text = text_of("cookbook/06-new-content")
    model = model_of(text)
    assert class_of(model, "/articles/a", facts=Facts({"last_modified": 59 * 60_000})) == "new"
    assert class_of(model, "/articles/a", facts=Facts({"last_modified": 61 * 60_000})) == "archive"
    shares = shares_of(text)
    assert shares["new"] >= 0.4
    assert shares["archive"] <= 0.3


def test_checkout() -> None:
    text = text_of("cookbook/07-checkout")
    model = model_of(text)
    assert terms(text, "/checkout").always
    linked = frozenset({next(at for at, one in enumerate(model.page_sets) if one.kind == "links")})
    cart = next(at for at, one in enumerate(model.page_sets) if one.name == "/cart")
    led_on = class_of(model, "/shop/maps", facts=Facts({f"client_accessed {cart}": 1000}, links=linked))
    assert terms(text, led_on).always
    assert not terms(text, class_of(model, "/shop/maps", facts=Facts(links=linked))).always
    too_late = Facts({f"client_accessed {cart}": 301_000}, links=linked)
    assert not terms(text, class_of(model, "/shop/maps", facts=too_late)).always
    assert shares_of(text, {"/cart": 1.0, "/shop": 1.0})["/cart"] == 1.0


def test_networks() -> None:
    text = text_of("cookbook/08-networks")
    model = model_of(text)
    for client, name in (("10.1.2.3", "berlin"), ("10.2.0.1", "oslo"), ("10.3.0.1", "world"), ("::1", "world")):
        assert class_of(model, "/mirror/x", facts=Facts(texts={"client": client})) == name
    shares = shares_of(text)
    assert shares["berlin"] >= 0.3
    assert shares["oslo"] >= 0.3
    alone = shares_of(text, {"world": 1.0})
    assert alone["world"] == 0.2, "hard: also without contention"


def test_scale_with_nodes() -> None:
    text = text_of("cookbook/09-scale-with-nodes")
    asks = {"/search": 1.0, "/thumbs": 1.0, "/export": 1.0, "default": 1.0}
    for nodes in (1, 2, 5):
        environment = Environment(nodes=nodes, capacity_bps=nodes * 8 * MB)
        shares = shares_of(text, asks, environment)
        assert shares["/search"] >= 200 * 16 * 1024 / (8 * MB) - 1e-4
        assert shares["/thumbs"] <= 0.1
        assert (shares["/export"] <= 0.01) is (nodes < 3)
        assert shares["default"] == 0, "the rest is what others leave"


def test_shadow_trial() -> None:
    text = text_of("cookbook/10-shadow-trial")
    model = model_of(text)
    assert [one.name for one in model.classes] == ["/app", "default"]
    without = model_of("".join(line for line in text.splitlines(True) if not line.startswith("shadow")))
    assert without.classes == model.classes
    assert shares_of(text, environment=Environment(load_ppm=PPM)) == {"/app": 0.5, "default": 0.5}
    matcher = Matcher(model)
    assert [model.constraints[at].shadow for at in matcher.shadows("x", "/app/search/a")] == [True]
    assert matcher.shadows("x", "/app/other") == []
    bound = shares_of(text.replace("shadow load", "load"), environment=Environment(load_ppm=PPM))
    assert bound["/app/search"] == 0.1

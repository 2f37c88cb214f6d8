"""Chromium over its DevTools protocol: a page of a given size, its content, the errors of its scripts, a picture."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_S = 60.0
MESSAGE_MAX = 64 << 20


def find_browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Tab:
    """One page. `errors`: exceptions and console errors of its scripts."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._sent = 0

    async def open(self, url: str, width: int, height: int) -> None:
        is_phone = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Runtime.enable")
        await self.call("Log.enable")
        await self.call("Page.enable")
        await self.call("Page.navigate", url=url)

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._sent += 1
        await self._socket.send_json({"id": self._sent, "method": method, "params": parameters})
        while True:
            found = json.loads(await self._socket.receive_str(timeout=START_S))
            self._note(found)
            if found.get("id") == self._sent:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result

    def _note(self, found: dict[str, Any]) -> None:
        about = found.get("params", {})
        match found.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if about["type"] == "error":
                self.errors.append(str(about["args"]))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.errors.append(str(about["entry"]))

    async def evaluate(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def wait_for(self, expression: str, within_s: float = START_S) -> Any:
        """The first true value of an expression in the page."""
        deadline = time.monotonic() + within_s
        while not (value := await self.evaluate(expression)):
            assert time.monotonic() < deadline, f"waited {within_s:g} s in vain for: {expression}; {self.errors}"
            await asyncio.sleep(0.05)
        return value

    async def save_picture(self, path: Path, *, whole: bool = False) -> None:
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))


@asynccontextmanager
async def browser_tab(program: str, folder: Path) -> AsyncGenerator[Tab, None]:
    """A browser with one empty tab, until the end of the block."""
    profile = folder / "profile"
    process = subprocess.Popen(  # noqa: ASYNC220
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0",
            f"--user-data-dir={profile}", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with aiohttp.ClientSession() as session:
            port = await _port(profile / "DevToolsActivePort", process)
            async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                pages = [one for one in await reply.json() if one["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=MESSAGE_MAX) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        process.wait(30)


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    """Chromium writes the port that it has chosen into a file of its profile."""
    deadline = time.monotonic() + START_S
    while True:
        assert process.poll() is None, "the browser has ended"
        assert time.monotonic() < deadline, f"the browser did not open a port within {START_S:g} s"
        text = await asyncio.to_thread(lambda: file.read_text() if file.exists() else "")
        if text.count("\n"):
            return int(text.split()[0])
        await asyncio.sleep(0.05)

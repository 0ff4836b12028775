"""Headless Chromium, driven over its own debugging protocol: a page in, what it did out."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

__all__ = ["Browser", "Visit", "browser", "program"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
# Elements that reach over the right edge and are not inside of something that scrolls by itself.
WIDE = """(() => {
  const root = document.documentElement;
  return {
    over: root.scrollWidth - root.clientWidth,
    titles: document.querySelectorAll("h1").length,
    broken: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
  };
})()"""


@dataclass
class Visit:
    """What happened on a page."""

    address: str
    over: int = 0
    titles: int = 0
    broken: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def program() -> str | None:
    """Where Chromium is, if it is anywhere."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab. Every call waits for its answer and keeps the events that come before it."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.count, self.events = socket, 0, []
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.count:
                assert "error" not in message, message
                return dict(message["result"])
            self.events.append(message)

    def visit(self, address: str, width: int, scheme: str) -> Visit:
        """Open a page in a window of that width, light or dark."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=phone,
        )
        preference = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[preference])
        self.events.clear()
        self.ask("Page.navigate", url=address)
        self._until("Page.loadEventFired")
        time.sleep(0.15)  # scripts that run after loading
        found = self.ask("Runtime.evaluate", expression=WIDE, returnByValue=True)
        return Visit(address, **found["result"]["value"], **self._heard())

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save what the tab shows."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _until(self, event: str) -> None:
        while not any(message.get("method") == event for message in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def _heard(self) -> dict[str, list[str]]:
        messages, requests = [], []
        for event in self.events:
            params = event.get("params", {})
            match event.get("method"):
                case "Log.entryAdded":
                    messages.append(params["entry"]["text"])
                case "Runtime.exceptionThrown":
                    messages.append(params["exceptionDetails"]["text"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                    messages.append(str(params["args"]))
                case "Network.requestWillBeSent":
                    requests.append(params["request"]["url"])
        return {"messages": messages, "requests": requests}


@contextmanager
def browser(executable: str) -> Iterator[Browser]:
    """A running Chromium with one tab, gone afterwards."""
    import websocket

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            port = _port(Path(profile), process)
            with urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = json.loads(answer.read())
            tab = next(tab for tab in tabs if tab["type"] == "page")
            socket = websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=60)
            yield Browser(socket)
            socket.close()
        finally:
            process.terminate()
            process.wait(timeout=20)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    """Chromium writes the port that it took into its profile."""
    for _ in range(300):
        file = profile / "DevToolsActivePort"
        if file.is_file() and (text := file.read_text().splitlines()):
            return int(text[0])
        assert process.poll() is None, "Chromium ended before it began"
        time.sleep(0.1)
    raise TimeoutError("Chromium did not open its debugging port")

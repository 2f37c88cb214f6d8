"""A small application: a slow search, and orders. It listens on port 9000."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/search"):
            time.sleep(0.05)
            self._reply(200, {"found": ["map of the harbour", "tide chart"]})
        else:
            self._reply(200, {"shop": "open"})

    def do_POST(self) -> None:
        order = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._reply(201, {"ordered": order})

    def _reply(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """qosweb writes the access log."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 9000), Shop).serve_forever()

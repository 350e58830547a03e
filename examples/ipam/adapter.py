"""The half of an adapter that ccmadm calls: spec.ipam of an AddressPool. The other half is netbox.py, dhcp.py or a program of your own.

It reads environment variables:

  TOKEN_FILE    file with the bearer token that the cloud-controller-manager sends
  LISTEN        default: 127.0.0.1:9001
  TIMEOUT       seconds, no more than spec.ipam.timeout of a pool; default: 10
  CERT_FILE     PEM of certificate and key, for https; needed to listen elsewhere than on 127.0.0.1
"""
import contextlib
import hmac
import json
import os
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read().strip()


TOKEN = text(os.environ["TOKEN_FILE"])
if not TOKEN:
    raise SystemExit(f"TOKEN_FILE: {os.environ['TOKEN_FILE']} is empty, so that calls without a token would be accepted")
TIMEOUT = float(os.environ.get("TIMEOUT", "10"))


class Refused(Exception):
    """No address can be given."""


class Unavailable(Exception):
    """The IPAM cannot be asked now."""

    def __init__(self, reason, retry_after=None):
        super().__init__(reason)
        self.retry_after = retry_after


class Path(NamedTuple):
    """Names the address of a Service."""
    cluster: str
    pool: str
    uid: str
    family: str

    def former(self, call):
        """Is under what the IPAM has the address until now, or None."""
        return Path(self.cluster, *call["from"].split("/"), self.family) if call.get("from") else None


busy, turn = set(), threading.Condition()


@contextlib.contextmanager
def alone(keys, deadline):
    """Waits until nothing else is done for one of the keys."""
    with turn:
        if not turn.wait_for(lambda: not busy & keys, deadline - time.monotonic()) or time.monotonic() > deadline:
            raise Unavailable("a former call is not done yet")
        busy.update(keys)
    try:
        yield
    finally:
        with turn:
            busy.difference_update(keys)
            turn.notify_all()


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # of one read or write

    def do_PUT(self):
        self.serve()

    def do_DELETE(self):
        self.serve()

    def serve(self):
        deadline = time.monotonic() + TIMEOUT  # then the client has given up, and may have called again
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), ("Bearer " + TOKEN).encode()):
            return self.answer(401, {"error": "another token"})
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 <= length <= 65536:
                return self.answer(413, {"error": "too long"})
            call = json.loads(self.rfile.read(length) or b"{}")
            path = Path(*[urllib.parse.unquote(part) for part in self.path.strip("/").split("/")[-4:]])
            if path.family not in ("ipv4", "ipv6") or any("/" in part for part in path):
                raise ValueError("the path does not end with CLUSTER/POOL/UID/FAMILY")
            with alone({path, path.former(call) or path}, deadline):
                if self.command == "DELETE":
                    return self.answer(200 if self.server.release(path, deadline) else 404)
                return self.answer(200, {"address": self.server.give(path, call, deadline)})
        except Refused as err:
            return self.answer(409, {"error": str(err)})
        except Unavailable as err:
            self.log_error("A call fails: %s", err)
            return self.answer(503, {"error": str(err)}, err.retry_after)
        except OSError as err:
            self.log_error("A call fails: %s", err)
            return self.answer(503, {"error": "the adapter's machine has an error"})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            self.log_error("Refused a call: %s", err)
            return self.answer(400, {"error": "the call or the IPAM's answer cannot be read"})

    def answer(self, status, body=None, retry_after=None):
        data = json.dumps(body or {}).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)


def serve(give, release):
    """Answers calls. Those of one path come one after the other.

    give(path, call, deadline) returns the address of the Service; the same call again returns the same one. release(path, deadline) returns
    whether there was one. Neither may change anything in the IPAM once time.monotonic() is past the deadline.
    """
    host, port = os.environ.get("LISTEN", "127.0.0.1:9001").rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    server.give, server.release = give, release
    if "CERT_FILE" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["CERT_FILE"])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    elif host != "127.0.0.1":
        raise SystemExit("CERT_FILE is needed to listen on " + host)
    server.serve_forever()

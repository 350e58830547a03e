#!/usr/bin/env python3
"""Routes Hetzner failover IPs to the Node that PUT requests of ccmadm's node agent name: spec.hook of an AddressPool.

It reads environment variables:

  MACHINES      file, JSON: {"NODE": "MAIN IP ADDRESS OF THE SERVER"}; an address is only routed to one of these
  ADDRESSES     failover IPs that may be moved, with commas
  TOKEN_FILE    file with the bearer token that the agents send
  ROBOT_USER, ROBOT_PASSWORD_FILE   the web service user of Hetzner's Robot
  LISTEN        default: 127.0.0.1:9000
  CERT_FILE     PEM of certificate and key, for https; needed to listen elsewhere than on 127.0.0.1
  ROBOT_URL     default: https://robot-ws.your-server.de
  UNSURE_SECONDS   how long a change that Robot has not answered may still happen; default: 180
"""
import base64
import collections
import hmac
import ipaddress
import json
import os
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read().strip()


MACHINES = json.loads(text(os.environ["MACHINES"]))
ADDRESSES = {str(ipaddress.ip_address(a.strip())) for a in os.environ["ADDRESSES"].split(",")}
TOKEN = text(os.environ["TOKEN_FILE"])
ROBOT = os.environ.get("ROBOT_URL", "https://robot-ws.your-server.de")
if not TOKEN:
    raise SystemExit(f"TOKEN_FILE: {os.environ['TOKEN_FILE']} is empty, so that calls without a token would be accepted")
LOGIN = base64.b64encode(f"{os.environ['ROBOT_USER']}:{text(os.environ['ROBOT_PASSWORD_FILE'])}".encode()).decode()

CONNECTIONS = 1024  # at once
OF_ONE = 256  # of these, from one IP address; an agent makes 32 calls at once for a pool, and one for each address
UNSURE = float(os.environ.get("UNSURE_SECONDS", "180"))
DAY = 24 * 60 * 60 * 1_000_000  # microseconds, as generations are

generations = {}  # the greatest of each address
unsure = {}  # until when a POST without an answer may still move an address: what Robot says of it until then can be of before that
locks = {address: threading.Lock() for address in ADDRESSES}


def robot(address, target=None):
    """Returns the server to which the address is routed, after it was routed to the target, if there is one, and whether that was a change."""
    data = urllib.parse.urlencode({"active_server_ip": target}).encode() if target else None
    request = urllib.request.Request(f"{ROBOT}/failover/{address}", data=data, headers={"Authorization": "Basic " + LOGIN})
    try:
        with urllib.request.urlopen(request, timeout=50) as response:
            return json.load(response)["failover"]["active_server_ip"], target is not None
    except urllib.error.HTTPError as err:
        if target and err.code == 409 and b'"FAILOVER_ALREADY_ROUTED"' in err.read(4096):
            return target, False
        raise


def route(address, target):
    """Has the address routed to the target. What Robot says without a change is not enough while a POST that was not answered may still
    happen: the caller gets an error then, and calls again."""
    now, until = time.monotonic(), unsure.get(address, 0)
    if until <= now and robot(address)[0] == target:
        unsure.pop(address, None)
        return
    unsure[address] = now + UNSURE
    try:
        active, changed = robot(address, target)
    except urllib.error.HTTPError as err:
        if err.code < 500:  # Robot has answered: nothing comes of this change
            unsure[address] = until
        raise
    if active != target:
        raise ValueError(f"it is routed to {active} instead of {target}")
    if until > now and not changed:
        unsure[address] = until
        raise ValueError("it is, but a former change that was not answered may still happen")
    del unsure[address]


def read(call):
    """Returns address, generation and node of a call. What is stored of a generation that no clock could have given, as 2**53, would refuse
    the calls of all nodes until a restart: it is at most a day ahead."""
    address, generation, node = call["address"], call["generation"], call["node"]
    if not isinstance(address, str) or not isinstance(node, str):
        raise ValueError("address and node are not text")
    if type(generation) is not int:  # True is one, for isinstance
        raise ValueError("generation is not an integer")
    if not 0 < generation <= time.time_ns() // 1000 + DAY:
        raise ValueError("generation is not between 1 and the time in a day, in microseconds: compare the clocks")
    return address, generation, node


class Server(ThreadingHTTPServer):
    """Bounds its connections, each of which is a thread, in all and of each source. Those beyond are closed, and agents call again."""

    request_queue_size = CONNECTIONS  # a takeover of many addresses calls for all at once

    def __init__(self, *args):
        self.lock, self.sources = threading.Lock(), collections.Counter()
        super().__init__(*args)

    def enter(self, source):
        with self.lock:
            if self.sources.total() >= CONNECTIONS or self.sources[source] >= OF_ONE:
                return False
            self.sources[source] += 1
            return True

    def leave(self, source):
        with self.lock:
            self.sources[source] -= 1
            if not self.sources[source]:
                del self.sources[source]

    def process_request(self, request, client_address):
        if not self.enter(client_address[0]):
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread that gives the connection back
            self.leave(client_address[0])
            raise

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.leave(client_address[0])

    def handle_error(self, request, client_address):
        err = sys.exc_info()[1]
        if not isinstance(err, OSError):  # a connection that has ended is worth a line
            return super().handle_error(request, client_address)
        print(f"{client_address[0]}: {err}", file=sys.stderr)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # of one read or write: clients that send nothing must not keep their connection
    within = 10  # the token has to be there, or clients that send little by little would keep theirs

    def setup(self):
        super().setup()
        self.deadline = threading.Timer(self.within, self.expire)
        self.deadline.daemon = True
        self.deadline.start()

    def finish(self):
        self.deadline.cancel()
        super().finish()

    def expire(self):
        try:
            socket.socket.shutdown(self.connection, socket.SHUT_RDWR)  # that of ssl would take its state from the thread that reads
        except OSError:
            pass  # it has ended

    def do_PUT(self):
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), ("Bearer " + TOKEN).encode()):
            return self.answer(401)
        self.deadline.cancel()
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= 65536:
                return self.answer(413)
            address, generation, node = read(json.loads(self.rfile.read(length)))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as err:
            self.log_error("Refused a call: %s", err)
            return self.answer(400)
        target = MACHINES.get(node)
        if address not in ADDRESSES or target is None:
            return self.answer(403)
        with locks[address]:
            if generation < generations.get(address, 0):
                return self.answer(409, {"generation": generations[address]})
            generations[address] = generation
            try:
                route(address, target)
            except urllib.error.HTTPError as err:
                self.log_error("Robot answers %d for %s", err.code, address)
                if err.code in (403, 429):  # too many calls in this hour
                    return self.answer(503, retry_after=900)
                return self.answer(502)
            except (OSError, ValueError, KeyError, TypeError) as err:
                self.log_error("Robot does not route %s: %s", address, err)
                return self.answer(502)
        return self.answer(200, {"address": address, "server": target})

    def answer(self, status, body=None, retry_after=None):
        data = json.dumps(body or {}).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(data)


def main():
    host, port = os.environ.get("LISTEN", "127.0.0.1:9000").rsplit(":", 1)
    server = Server((host, int(port)), Receiver)
    if "CERT_FILE" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["CERT_FILE"])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    elif host != "127.0.0.1":
        raise SystemExit("CERT_FILE is needed to listen on " + host)
    server.serve_forever()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Gives addresses of NetBox to AddressPools of ccmadm: spec.ipam of an AddressPool.

It reads environment variables:

  PREFIXES      JSON: {"POOL": {"ipv4": ID, "ipv6": ID}}, with the IDs of prefixes in NetBox; other pools are refused
  TOKEN_FILE    file with the bearer token that the cloud-controller-manager sends
  NETBOX_URL    https://netbox.example.com
  NETBOX_TOKEN_FILE   file with an API token that may view prefixes, and view, add, change and delete IP addresses; one of version 2
                whole: nbt_KEY.TOKEN
  LISTEN        default: 127.0.0.1:9001
  TIMEOUT       seconds, no more than spec.ipam.timeout of a pool; default: 10
  CERT_FILE     PEM of certificate and key, for https; needed to listen elsewhere than on 127.0.0.1
"""
import hashlib
import hmac
import ipaddress
import json
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read().strip()


PREFIXES = json.loads(os.environ["PREFIXES"])
TOKEN = text(os.environ["TOKEN_FILE"])
NETBOX = os.environ["NETBOX_URL"].rstrip("/")
NETBOX_TOKEN = text(os.environ["NETBOX_TOKEN_FILE"])
if not TOKEN:
    raise SystemExit(f"TOKEN_FILE: {os.environ['TOKEN_FILE']} is empty, so that calls without a token would be accepted")

TIMEOUT = float(os.environ.get("TIMEOUT", "10"))
lock = threading.Lock()  # NetBox may have two objects with one address: this looks, and then adds


class Refused(Exception):
    """No address can be given."""


def netbox(method, path, body=None):
    """Makes one call of NetBox's API, and returns its answer."""
    data = None if body is None else json.dumps(body).encode()
    scheme = "Bearer " if NETBOX_TOKEN.startswith("nbt_") else "Token "  # tokens of version 2, since NetBox 4.5, and of version 1
    headers = {"Authorization": scheme + NETBOX_TOKEN, "Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(f"{NETBOX}/api/ipam/{path}", data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=8) as response:
        read = response.read()
        return json.loads(read) if read else None


def find(**query):
    return netbox("GET", "ip-addresses/?" + urllib.parse.urlencode(query))["results"]


def mark(*key):
    """Is what the description of an address in NetBox says, by which it is found again. A description has 200 characters at most."""
    return "ccmadm " + hashlib.sha256("/".join(key).encode()).hexdigest()[:40]


def plain(found):
    return str(ipaddress.ip_interface(found["address"]).ip)


def give(cluster, pool, uid, family, call):
    """Returns the address that NetBox has for the Service. The same call again returns the same one."""
    prefix = PREFIXES.get(pool, {}).get(family)
    if prefix is None:
        raise Refused(f"pool {pool} has no prefix of {family}")
    own, wanted = mark(cluster, pool, uid, family), call.get("wanted") or call.get("address")
    found = find(description=own)
    if found and (not call.get("wanted") or call.get("address") or plain(found[0]) == wanted):
        return plain(found[0])
    if found:  # no Service has it, and this one takes another one only
        netbox("DELETE", f"ip-addresses/{found[0]['id']}/")
    said = {
        "description": own, "status": "active",
        "comments": f"Service {call['namespace']}/{call['name']}, AddressPool {pool}, cluster {cluster}",
    }
    if not wanted:
        return plain(netbox("POST", f"prefixes/{prefix}/available-ips/", said))
    within = netbox("GET", f"prefixes/{prefix}/")
    network, vrf = ipaddress.ip_network(within["prefix"]), (within.get("vrf") or {}).get("id")
    if ipaddress.ip_address(wanted) not in network:
        raise Refused(f"{wanted} is not in {network}")
    there = find(address=wanted, vrf_id="null" if vrf is None else vrf)  # another VRF may have the same address
    if not there:
        return plain(netbox("POST", "ip-addresses/", dict(said, address=f"{wanted}/{network.prefixlen}", vrf=vrf)))
    former = mark(cluster, *call["from"].split("/", 1), family) if call.get("from") else None
    if former is None or there[0]["description"] != former:
        raise Refused(f"{wanted} is in use")
    return plain(netbox("PATCH", f"ip-addresses/{there[0]['id']}/", said))


def release(cluster, pool, uid, family):
    """Returns whether NetBox had an address for the Service."""
    found = find(description=mark(cluster, pool, uid, family))
    for each in found:
        netbox("DELETE", f"ip-addresses/{each['id']}/")
    return bool(found)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # of one read or write

    def do_PUT(self):
        self.serve()

    def do_DELETE(self):
        self.serve()

    def serve(self):
        arrived = time.monotonic()
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), ("Bearer " + TOKEN).encode()):
            return self.answer(401, {"error": "another token"})
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 <= length <= 65536:
                return self.answer(413, {"error": "too long"})
            call = json.loads(self.rfile.read(length) or b"{}")
            cluster, pool, uid, family = [urllib.parse.unquote(part) for part in self.path.strip("/").split("/")[-4:]]
            if family not in ("ipv4", "ipv6"):
                raise ValueError("the path does not end with CLUSTER/POOL/UID/FAMILY")
            with lock:
                if time.monotonic() - arrived > TIMEOUT:  # the client has given up, and may have called again
                    return self.answer(503, {"error": "NetBox is slow"})
                if self.command == "DELETE":
                    return self.answer(200 if release(cluster, pool, uid, family) else 404)
                return self.answer(200, {"address": give(cluster, pool, uid, family, call)})
        except Refused as err:
            return self.answer(409, {"error": str(err)})
        except urllib.error.HTTPError as err:
            self.log_error("NetBox answers %d", err.code)
            if err.code == 409 and self.command == "PUT":  # the prefix has no address left
                return self.answer(409, {"error": "NetBox has no address left"})
            return self.answer(503, {"error": f"NetBox answers {err.code}"}, err.headers.get("Retry-After"))
        except OSError as err:
            self.log_error("NetBox does not answer: %s", err)
            return self.answer(503, {"error": "NetBox does not answer"})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            self.log_error("Refused a call: %s", err)
            return self.answer(400, {"error": "the call or NetBox's answer cannot be read"})

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


def main():
    host, port = os.environ.get("LISTEN", "127.0.0.1:9001").rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    if "CERT_FILE" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["CERT_FILE"])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    elif host != "127.0.0.1":
        raise SystemExit("CERT_FILE is needed to listen on " + host)
    server.serve_forever()


if __name__ == "__main__":
    main()

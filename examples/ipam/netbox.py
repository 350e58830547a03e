#!/usr/bin/env python3
"""Gives addresses of NetBox to AddressPools of ccmadm: spec.ipam of an AddressPool.

It reads environment variables, beside those of adapter.py:

  PREFIXES      JSON: {"POOL": {"ipv4": ID, "ipv6": ID}}, with the IDs of prefixes in NetBox; other pools are refused
  NETBOX_URL    https://netbox.example.com
  NETBOX_TOKEN_FILE   file with an API token that may view prefixes, and view, add, change and delete IP addresses; one of version 2
                whole: nbt_KEY.TOKEN
"""
import hashlib
import ipaddress
import json
import os
import urllib.error
import urllib.parse
import urllib.request

from adapter import Refused, Unavailable, alone, serve, text

PREFIXES = json.loads(os.environ["PREFIXES"])
NETBOX = os.environ["NETBOX_URL"].rstrip("/")
NETBOX_TOKEN = text(os.environ["NETBOX_TOKEN_FILE"])


def netbox(method, path, body=None):
    """Makes one call of NetBox's API, and returns its answer."""
    data = None if body is None else json.dumps(body).encode()
    scheme = "Bearer " if NETBOX_TOKEN.startswith("nbt_") else "Token "  # tokens of version 2, since NetBox 4.5, and of version 1
    headers = {"Authorization": scheme + NETBOX_TOKEN, "Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(f"{NETBOX}/api/ipam/{path}", data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=8) as response:
            read = response.read()
    except urllib.error.HTTPError as err:
        if err.code == 409 and method == "POST":
            raise Refused("NetBox has no address left") from None
        raise Unavailable(f"NetBox answers {err.code}", err.headers.get("Retry-After")) from None
    except OSError as err:
        raise Unavailable(f"NetBox does not answer: {err}") from None
    return json.loads(read) if read else None


def find(**query):
    return netbox("GET", "ip-addresses/?" + urllib.parse.urlencode(query))["results"]


def mark(path):
    """Is what the description of an address in NetBox says, by which it is found again. A description has 200 characters at most."""
    return "ccmadm " + hashlib.sha256("/".join(path).encode()).hexdigest()[:40]


def plain(found):
    return str(ipaddress.ip_interface(found["address"]).ip)


def give(path, call, deadline):
    """Returns the address that NetBox has for the Service."""
    prefix = PREFIXES.get(path.pool, {}).get(path.family)
    if prefix is None:
        raise Refused(f"pool {path.pool} has no prefix of {path.family}")
    with alone({NETBOX}, deadline):  # NetBox may have two objects with one address: this looks, and then adds
        return stored(path, call, prefix)


def stored(path, call, prefix):
    own, wanted = mark(path), call.get("wanted") or call.get("address")
    found = find(description=own)
    if found and (not call.get("wanted") or call.get("address") or plain(found[0]) == wanted):
        return plain(found[0])
    if found:  # no Service has it, and this one takes another one only
        netbox("DELETE", f"ip-addresses/{found[0]['id']}/")
    said = {
        "description": own, "status": "active",
        "comments": f"Service {call['namespace']}/{call['name']}, AddressPool {path.pool}, cluster {path.cluster}",
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
    former = path.former(call)
    if former is None or there[0]["description"] != mark(former):
        raise Refused(f"{wanted} is in use")
    return plain(netbox("PATCH", f"ip-addresses/{there[0]['id']}/", said))


def release(path, deadline):
    """Returns whether NetBox had an address for the Service."""
    with alone({NETBOX}, deadline):
        found = find(description=mark(path))
        for each in found:
            netbox("DELETE", f"ip-addresses/{each['id']}/")
        return bool(found)


if __name__ == "__main__":
    serve(give, release)

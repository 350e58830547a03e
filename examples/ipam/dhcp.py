#!/usr/bin/env python3
"""Gives leases of a DHCP server (RFC 2131) to AddressPools of ccmadm: spec.ipam of an AddressPool.

Each Service is a DHCP client with an identifier and a hardware address of its own. This program is those clients and their relay agent: the
server sends its replies to port 67 of RELAY, so that ports 68, addresses and DHCP clients of this machine have nothing to do with it. It
renews leases on its own. It reads environment variables, beside those of adapter.py:

  POOLS         JSON: {"POOL": {"servers": ["192.0.2.1"], "subnet": "198.51.100.0", "probe": "eth0"}}; other pools are refused.
                servers: at most 8; each sends replies from the address that is here.
                subnet: of the addresses, if RELAY is in another one (link selection, RFC 3527); optional.
                probe: interface by which ARP finds out whether an address is in use, before it is given; optional.
  RELAY         an IPv4 address of this machine; it selects the server's range (giaddr)
  STATE_FILE    file for the leases; one for each adapter
"""
import contextlib
import hashlib
import ipaddress
import itertools
import json
import os
import queue
import random
import secrets
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass

from adapter import TIMEOUT, Path, Refused, Unavailable, alone, serve, text

DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM = range(1, 9)
MESSAGE, WANTED, LEASE_TIME, SERVER, PARAMETERS, T1, CLASS, CLIENT, AGENT = 53, 50, 51, 54, 55, 58, 60, 61, 82  # options
HEADER = struct.Struct("!4BIHH4s4s4s4s16s192x4s")  # of a message, up to the options
COOKIE = b"\x63\x82\x53\x63"
AGAIN = 60  # seconds at most between tries to renew a lease

POOLS = json.loads(os.environ["POOLS"])
for name, pool in POOLS.items():
    pool["servers"] = [str(ipaddress.IPv4Address(server)) for server in pool["servers"]]
    pool["subnet"] = ipaddress.IPv4Address(pool["subnet"]).packed if "subnet" in pool else b""
    if not 1 <= len(pool["servers"]) <= 8 or len(name) > 200:
        raise SystemExit(f"POOLS: {name}: 1 to 8 servers are possible, and a name of 200 characters")
RELAY = ipaddress.IPv4Address(os.environ["RELAY"])
STATE_FILE = os.environ["STATE_FILE"]


class NoReply(Unavailable):
    """No server has answered in time."""

    def __init__(self):
        super().__init__("the DHCP server does not answer in time")


def log(line):
    print(line, file=sys.stderr, flush=True)


@dataclass
class Lease:
    """What STATE_FILE has of a path. Times are those of the wall clock, since they outlive this program."""
    client: str  # its identifier, which stays when the address moves to another path
    address: str = ""
    server: str = ""  # the server's identifier
    renew: float = 0  # 0: the server has never confirmed the address
    expires: float = 0  # 0: the server has not confirmed it, or has refused it since


leases, writing = {}, threading.Lock()


def load():
    try:
        for path, lease in json.loads(text(STATE_FILE)).items():
            leases[Path(*path.split("/"))] = Lease(**lease)
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, AttributeError) as err:
        raise SystemExit(f"STATE_FILE: {STATE_FILE} cannot be read: {err}") from None


def store(path, lease, former=None):
    """Stores the lease of a path, or that there is none. The one of a former path goes at the same time."""
    with writing:
        leases.pop(former, None)
        if lease:
            leases[path] = lease
        else:
            leases.pop(path, None)
        data = json.dumps({"/".join(path): asdict(lease) for path, lease in leases.items()}, indent=1)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(STATE_FILE + ".new")
        with open(os.open(STATE_FILE + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(STATE_FILE + ".new", STATE_FILE)


def client_of(path):
    """Is a client identifier that no lease has: the first one of this path may have gone to another path, with its address."""
    with writing:
        taken = {lease.client for lease in leases.values()}
    digests = (hashlib.sha256("/".join([*path, str(n)]).encode()).hexdigest() for n in itertools.count())
    return next(client for client in ("ccmadm-" + digest[:32] for digest in digests) if client not in taken)


def hardware(client):
    return b"\x02" + hashlib.sha256(client.encode()).digest()[:5]  # locally administered: no machine's


def message(kind, xid, client, pool, address="", options=(), secs=0):
    """Is a message of a client, as its relay agent sends it."""
    own = ipaddress.IPv4Address(address or 0).packed
    head = HEADER.pack(1, 1, 6, 1, xid, secs, 0, own, bytes(4), bytes(4), RELAY.packed, hardware(client), COOKIE)
    # No host name: the server may add it to DNS, and tenants choose the names of Services. The class lets the server have a range for this
    # pool alone. It is in each message, as servers otherwise do not find the range of an address that is released.
    options = [(MESSAGE, bytes([kind])), (CLIENT, b"\0" + client.encode()), (CLASS, b"ccmadm/" + pool.encode()), *options]
    if kind in (DISCOVER, REQUEST):
        options.append((PARAMETERS, bytes([LEASE_TIME, SERVER, T1])))
    if POOLS[pool]["subnet"]:
        options.append((AGENT, b"\x05\x04" + POOLS[pool]["subnet"]))  # the last one, by RFC 3046
    return (head + b"".join(bytes([code, len(value)]) + value for code, value in options) + b"\xff").ljust(300, b"\0")


@dataclass
class Reply:
    kind: int
    xid: int
    hardware: bytes
    address: str
    options: dict

    def confirms(self, lease):
        return self.kind == ACK and self.address == lease.address and LEASE_TIME in self.options

    def number(self, code):
        return int.from_bytes(self.options.get(code, b""), "big")

    def server(self):
        return str(ipaddress.IPv4Address(self.options[SERVER]))


def parse(data):
    """Returns the reply that a server sent to this relay agent. ValueError, IndexError or struct.error: it is none."""
    op, htype, hlen, _, xid, _, _, _, own, _, relay, chaddr, cookie = HEADER.unpack_from(data)
    if (op, htype, hlen, relay, cookie) != (2, 1, 6, RELAY.packed, COOKIE):
        raise ValueError("it is no reply to this relay agent")
    options, at = {}, HEADER.size
    while data[at] != 255:
        if data[at] == 0:
            at += 1
            continue
        end = at + 2 + data[at + 1]
        options[data[at]] = options.get(data[at], b"") + data[at + 2:end]  # RFC 3396
        at = end  # IndexError if the option is longer than the message
    for code, length in ((MESSAGE, 1), (SERVER, 4), (LEASE_TIME, 4), (T1, 4)):
        if code in options and len(options[code]) != length:
            raise ValueError(f"option {code} has another length")
    if SERVER not in options:
        raise ValueError("it names no server")
    return Reply(options[MESSAGE][0], xid, chaddr[:6], str(ipaddress.IPv4Address(own)), options)


sock, waiting = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), {}  # by transaction ID: hardware, identifier, servers, replies


def receive():
    """Gives each reply to the question that waits for it."""
    while True:
        try:
            data, (source, _) = sock.recvfrom(65535)
            reply = parse(data)
            chaddr, client, servers, replies = waiting[reply.xid]
            if source in servers and reply.hardware == chaddr and reply.options.get(CLIENT, client) == client:
                replies.put((reply, source))
        except (ValueError, LookupError, struct.error, OSError):  # another's, too late, or hostile
            continue


def send(data, servers):
    for server in servers:
        try:
            sock.sendto(data, (server, 67))
        except OSError as err:
            log(f"{server} cannot be reached: {err}")


def ask(kind, client, pool, good, until, address="", options=(), servers=None, holder=""):
    """Sends a message until a reply is good, and returns it and its sender. None: all replies were others. NoReply: there was none.

    holder: identifier of the server that has the lease. While it does not answer, no reply of some of the others counts: they do not know."""
    servers = servers or POOLS[pool]["servers"]
    xid, replies, others, began, alive = secrets.randbits(32), queue.SimpleQueue(), set(), time.monotonic(), False
    decided = not holder
    pause = first = min(1, (until - began) / 8)
    waiting[xid] = hardware(client), b"\0" + client.encode(), servers, replies
    try:
        while time.monotonic() < until and len(others) < len(servers):
            send(message(kind, xid, client, pool, address, options, int(time.monotonic() - began)), servers)
            if kind == DISCOVER and time.monotonic() > began + first / 2:  # a server without a free address answers only this:
                send(message(INFORM, xid, client, pool, str(RELAY)), servers)
                send(message(INFORM, xid, client, pool), servers)  # Kea, which sends its reply to port 68 of the address, if there is one
            again = time.monotonic() + pause * random.uniform(0.9, 1.1)
            while (left := min(again, until) - time.monotonic()) > 0 and len(others) < len(servers):
                with contextlib.suppress(queue.Empty):
                    reply, source = replies.get(timeout=left)
                    if good(reply):
                        return reply, source
                    if kind == DISCOVER and reply.kind == ACK:  # an offer may still come: servers probe addresses
                        alive, until = True, min(until, time.monotonic() + first)
                    else:
                        others.add(source)
                        decided = decided or reply.server() == holder or len(others) == len(servers)
            pause *= 2
    finally:
        del waiting[xid]
    if not (others and decided) and not alive:
        raise NoReply
    return None, None


def part(of, deadline):
    """Is the end of a part of the time that is left."""
    return time.monotonic() + of * (deadline - time.monotonic())


def arp(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
    s.bind((interface, 0x0806))
    return s


def in_use(address, interface):
    """Returns whether a machine has the address, by probes of RFC 5227."""
    packed = ipaddress.IPv4Address(address).packed
    with arp(interface) as s:
        probe = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, s.getsockname()[4], bytes(4), bytes(6), packed)
        for _ in range(3):
            s.sendto(probe, (interface, 0x0806, 0, 0, b"\xff" * 6))
            until = time.monotonic() + 0.3
            while (left := until - time.monotonic()) > 0:
                s.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    data, source = s.recvfrom(1500)
                    if data[14:18] == packed and source[2] != socket.PACKET_OUTGOING:
                        return True
    return False


def confirmed(path, lease, reply, asked):
    """Stores what an ACK says. Time counts from when it was asked for."""
    seconds, renew_after = reply.number(LEASE_TIME), reply.number(T1)
    lease.server, lease.expires = reply.server(), asked + seconds
    lease.renew = asked + max(5, renew_after if 0 < renew_after < seconds else seconds / 2)
    store(path, lease)


def extended(path, lease, until):
    """Asks for the lease as a client that has the address. Returns whether the server has confirmed it."""
    asked = time.time()
    reply, _ = ask(REQUEST, lease.client, path.pool, lambda r: r.confirms(lease), until, lease.address,
                   holder=lease.server)
    if reply:
        confirmed(path, lease, reply, asked)
    return reply is not None


def offer(path, lease, wanted, deadline):
    """Returns an offer of the address, or of any, and who made it."""
    hint, left = wanted or lease.address, deadline - time.monotonic()
    reply, source = ask(DISCOVER, lease.client, path.pool,
                        lambda r: r.kind == OFFER and r.address != "0.0.0.0" and wanted in ("", r.address), deadline - min(1.5, left / 4),
                        options=[(WANTED, ipaddress.IPv4Address(hint).packed)] if hint else [])
    if not reply:
        raise Refused(f"the DHCP server does not offer {wanted or 'an address: its range is full, or it ignores this client'}")
    return reply, source


def obtain(path, lease, wanted, used, deadline):
    """Leases the address for a path, or any. used: the Service has it."""
    if used:
        lease.address = wanted
        try:
            if extended(path, lease, part(0.4, deadline)):
                return
        except NoReply:  # so are servers that do not know the lease
            if time.time() < lease.expires:
                raise
        lease.expires = 0
        store(path, lease)
    # dnsmasq probes an address for 3 s before it reads the next message: clients that ask at the same time would all wait too long.
    with alone({path.pool}, deadline - 0.4 * TIMEOUT):
        lease_offered(path, lease, wanted, used, deadline)


def lease_offered(path, lease, wanted, used, deadline):
    for _ in range(1 if wanted else 3):
        found, source = offer(path, lease, wanted, deadline)
        lease.address, lease.server = found.address, found.server()
        store(path, lease)  # before the server does: a DELETE has to find it
        named, asked = [(WANTED, ipaddress.IPv4Address(lease.address).packed), (SERVER, found.options[SERVER])], time.time()
        reply, _ = ask(REQUEST, lease.client, path.pool, lambda r: r.confirms(lease), deadline, options=named, servers=[source])
        if reply and (used or not POOLS[path.pool].get("probe") or not in_use(lease.address, POOLS[path.pool]["probe"])):
            return confirmed(path, lease, reply, asked)
        if reply:
            log(f"{'/'.join(path)}: another machine has {found.address}: it is declined")
            send(message(DECLINE, secrets.randbits(32), lease.client, path.pool, options=named), [source])
        lease.address = wanted  # not the one that another client or machine has
    raise Refused(f"{found.address} is in use")


def give(path, call, deadline):
    """Returns the address that the server leases to the Service."""
    if path.pool not in POOLS:
        raise Refused(f"pool {path.pool} is not in POOLS")
    if path.family != "ipv4":
        raise Refused("this adapter gives IPv4 addresses only")
    deadline, wanted = part(0.9, deadline), call.get("wanted") or call.get("address") or ""
    if wanted:
        ipaddress.IPv4Address(wanted)
    lease, former = leases.get(path), path.former(call)
    if lease and call.get("wanted") and not call.get("address") and lease.address != wanted:
        release(path, deadline)  # no Service has it, and this one takes another one only
        lease = None
    if not lease and former in leases and leases[former].address == wanted:
        lease = leases[former]
        store(path, lease, former)
    if lease and time.time() < lease.expires:
        return lease.address
    lease = lease or Lease(client_of(path))
    obtain(path, lease, wanted, bool(call.get("address")), deadline)
    return lease.address


def release(path, deadline):
    """Returns whether there was a lease. A server does not answer a release, and one that is lost ends with the lease."""
    lease = leases.get(path)
    if lease and lease.address and lease.server and path.pool in POOLS:
        server = [(SERVER, ipaddress.IPv4Address(lease.server).packed)]
        send(message(RELEASE, secrets.randbits(32), lease.client, path.pool, lease.address, server), POOLS[path.pool]["servers"])
    if lease:
        store(path, None)
    return lease is not None


def renew_when_due(path, at):
    """Renews a lease, unless a call has changed it. Services keep their addresses whatever a server says, so it is tried until DELETE."""
    deadline = time.monotonic() + TIMEOUT
    with alone({path}, deadline):
        lease, now = leases.get(path), time.time()
        if lease and lease.renew == at:
            lease.renew = now + (min(AGAIN, max(5, (lease.expires - now) / 2)) if now < lease.expires else AGAIN)
            obtain(path, lease, lease.address, True, deadline)


def renew(pool):
    """Renews the leases of a pool. Pools do not wait for each other's servers."""
    while True:
        with writing:
            due = sorted((lease.renew, path) for path, lease in leases.items() if path.pool == pool and 0 < lease.renew <= time.time())
        for at, path in due:
            try:
                renew_when_due(path, at)
            except Exception as err:  # whatever it is: other leases need this thread
                log(f"{'/'.join(path)}: its lease is not renewed: {err or type(err).__name__}")
        time.sleep(1)


def main():
    load()
    try:
        sock.bind((str(RELAY), 67))
    except OSError as err:
        raise SystemExit(f"RELAY: port 67 of {RELAY} cannot be used: {err}") from None
    for name, pool in POOLS.items():
        try:
            if "probe" in pool:
                arp(pool["probe"]).close()
        except OSError as err:
            raise SystemExit(f"POOLS: {name}: {pool['probe']} cannot be used for ARP: {err}") from None
    threading.Thread(target=receive, daemon=True).start()
    for pool in POOLS:
        threading.Thread(target=renew, args=(pool,), daemon=True).start()
    serve(give, release)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""ip for MetalLB's tests. Of an IPv6 address they read a last group of one digit only, as their own clusters have, or one
that is not shortened and ends its line: that is how this prints next hops and neighbours."""
import ipaddress
import re
import subprocess
import sys


def whole(text):
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    if re.search("::[0-9a-f]$", address.compressed):
        return address.compressed
    return ":".join(format(int(part, 16), "x") for part in address.exploded.split(":"))


def readable(line):
    hop = re.match(r"(.*\bvia )([0-9a-f:]+) ", line)
    if hop:
        return hop.group(1) + whole(hop.group(2))
    address, _, rest = line.partition(" ")
    if ":" in address and " lladdr " in line:
        return rest + " " + whole(address)
    return line


run = subprocess.run(["/usr/sbin/ip", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
lines = run.stdout.splitlines()
if "--json" not in sys.argv:
    lines = [readable(line.rstrip()) for line in lines]
print("\n".join(lines))
sys.exit(run.returncode)

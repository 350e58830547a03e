#!/bin/bash
# What MetalLB's tests call docker: their one container, the router ebgp-single-hop, is this machine with Debian's FRR.
case $1 in
ps) echo Up ;;
inspect)
  case $3 in
  *GlobalIPv6Address*) echo "$ROUTER_IPV6" ;;
  *) echo "$ROUTER_IPV4" ;;
  esac ;;
exec) shift 2; exec "$@" ;;
kill) ;;
*) echo "docker $1: there is no docker here" >&2; exit 1 ;;
esac

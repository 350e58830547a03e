#!/bin/sh
# Prints the folder that has Debian's ansible-core, cloud-init and dnsmasq, with what they need and this machine lacks, unpacked into the
# cache. Nothing is installed: an installed cloud-init would configure this machine at its next boot.
set -eu
dir=${XDG_CACHE_HOME:-$HOME/.cache}/ccmadm-lab/examples-tools
if [ ! -x "$dir/usr/bin/ansible-playbook" ] || [ ! -x "$dir/usr/bin/cloud-init" ] || [ ! -x "$dir/usr/sbin/dnsmasq" ]; then
  rm -rf "$dir.new" && mkdir -p "$dir.new" && cd "$dir.new"
  # --reinstall: also where a package is installed. A new machine has no lists of packages.
  list() {
    apt-get install --print-uris -qq --reinstall --no-install-recommends ansible-core cloud-init dnsmasq-base | awk '{print $2}' | sed 's/_.*//'
  }
  names=$(list)
  if [ -z "$names" ]; then apt-get update -q >&2; names=$(list); fi
  # shellcheck disable=SC2086
  apt-get download -q $names >&2 || { apt-get update -q >&2 && apt-get download -q $names >&2; }
  for package in *.deb; do dpkg-deb -x "$package" .; rm "$package"; done
  rm -rf "$dir" && mv "$dir.new" "$dir"
fi
echo "$dir"

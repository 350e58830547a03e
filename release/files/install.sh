#!/bin/sh
# Installs ccmadm <<.Version>>. Nothing is installed before its checksum, and its signature where a key is given, is verified.
#
#   CCMADM_BASE_URL      folder with the release (default: the release on GitHub)
#   CCMADM_PUBLIC_KEY    file with the public key; the signature of the checksums is then required
#   CCMADM_INSTALL_DIR   where to install (default: /usr/local/bin)
set -eu

version='<<.Version>>'
base=${CCMADM_BASE_URL:-<<.Repository>>/releases/download/$version}
key=${CCMADM_PUBLIC_KEY:-}
target=${CCMADM_INSTALL_DIR:-/usr/local/bin}

fail() {
	echo "install.sh: error: $*" >&2
	exit 1
}

has() {
	command -v "$1" >/dev/null 2>&1
}

download() {
	if has curl; then
		curl --fail --silent --show-error --location --connect-timeout 20 --retry 3 --output "$2" "$1" || fail "download $1"
	elif has wget; then
		wget --quiet --timeout=20 --output-document="$2" "$1" || fail "download $1"
	else
		fail "download $1: neither curl nor wget is installed"
	fi
}

sha256() {
	if has sha256sum; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif has shasum; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "verify $1: neither sha256sum nor shasum is installed"
	fi
}

platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "no release for $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "no release for $(uname -m)" ;;
	esac
	echo "${os}_$arch"
}

verify_signature() {
	if [ -z "$key" ]; then
		echo 'install.sh: signature not verified: CCMADM_PUBLIC_KEY names no key' >&2
		return
	fi
	has openssl || fail 'verify SHA256SUMS: openssl is not installed'
	download "$base/SHA256SUMS.sig" SHA256SUMS.sig
	if ! { openssl base64 -d -A -in SHA256SUMS.sig -out SHA256SUMS.der &&
		openssl dgst -sha256 -verify "$key" -signature SHA256SUMS.der SHA256SUMS; } >/dev/null 2>&1; then
		fail "SHA256SUMS is not signed by $key; nothing was installed"
	fi
}

verify_checksum() {
	want=$(awk -v name="$1" '$2 == name { print $1 }' SHA256SUMS)
	[ -n "$want" ] || fail "SHA256SUMS does not list $1; nothing was installed"
	got=$(sha256 "$1")
	[ "$got" = "$want" ] || fail "$1 has digest $got, want $want; nothing was installed"
}

# A package has /usr/bin/ccmadm, and only the first in PATH runs.
warn_of_another() {
	(
		IFS=:
		for dir in $PATH; do
			if [ -x "$dir/ccmadm" ] && ! [ "$dir/ccmadm" -ef "$target/ccmadm" ]; then
				echo "install.sh: warning: another ccmadm is at $dir/ccmadm; the shell runs $(command -v ccmadm)" >&2
				break
			fi
		done
	)
}

main() {
	platform=$(platform)
	archive="ccmadm_${version}_$platform.tar.gz"
	case $key in
	'' | /*) ;;
	*) key=$PWD/$key ;;
	esac
	case $target in
	/*) ;;
	*) target=$PWD/$target ;;
	esac
	[ -d "$target" ] || fail "$target is not a folder: CCMADM_INSTALL_DIR names another"
	[ -w "$target" ] || fail "$target cannot be written: run as root, or set CCMADM_INSTALL_DIR"
	work=$(mktemp -d)
	trap 'rm -rf "$work" "$target/.ccmadm.new"' EXIT
	trap 'exit 129' HUP # without these, sh ends with the signal, and leaves what EXIT removes
	trap 'exit 130' INT
	trap 'exit 143' TERM
	cd "$work"
	download "$base/SHA256SUMS" SHA256SUMS
	verify_signature
	download "$base/$archive" "$archive"
	verify_checksum "$archive"
	tar -xzf "$archive" ccmadm
	# Beside the target and renamed, so that a program that runs is replaced as a whole. Modes of copies depend on the umask.
	cp ccmadm "$target/.ccmadm.new"
	chmod 755 "$target/.ccmadm.new"
	mv "$target/.ccmadm.new" "$target/ccmadm"
	echo "ccmadm $version installed to $target/ccmadm"
	warn_of_another
}

main

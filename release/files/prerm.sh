#!/bin/sh
# Warns where units that ccmadm wrote start the program of this package, and nothing else: a package has to be removable.
set -e

# dpkg removes; the argument of rpm is the number of versions that stay.
case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac

for unit in "${DPKG_ROOT:-}"/etc/systemd/system/ccmadm-*.service; do
	grep -qs '^ExecStart=/usr/bin/ccmadm ' "$unit" || continue
	case $unit in
	*/ccmadm-certs.service)
		ends="the certificate of this machine's cloud-controller-manager is no longer renewed"
		again='ccmadm apply phase kubeconfig'
		;;
	*)
		ends="the kubelet's flags are no longer set at boot"
		again='ccmadm join phase kubelet --install-unit'
		;;
	esac
	echo "ccmadm: warning: $unit starts the program that is removed now: $ends" >&2
	echo "ccmadm: hint: to keep this node, install ccmadm again, in the same or another way, and run \`$again\`" >&2
done

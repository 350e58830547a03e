#!/usr/bin/env bash
# Runs a command as an ordinary user, as a contributor would: test/ordinary.sh go test -short ./...
# Where root runs this, the user is nobody (65534), in a clone of HEAD, with a home directory that is empty. What root has
# downloaded and compiled is there. What the command adds is in memory, in mounts that no other process sees, and is gone
# afterwards. If root cannot mount, or cannot give up its rights, this fails.
set -euo pipefail
[ "$(id -u)" = 0 ] || exec "$@"
if [ "${1-}" != --apart ]; then
  exec unshare --mount --propagation private -- "$0" --apart "$@"
fi
shift

user=65534
dir=$(mktemp -d)
trap 'cd /; umount -lR "$dir"; rmdir "$dir"' EXIT
mount -t tmpfs -o mode=755 tmpfs "$dir"
mkdir "$dir"/{home,tmp}
git clone --quiet --no-hardlinks . "$dir/tree"
chown -R $user:$user "$dir"/{home,tmp,tree}

# copy mounts a directory of root's as one of the user's own. With metacopy a file has another owner, and the content of
# before until the user changes it.
copy() {
  mkdir -p "$1" "$2" "$2".{upper,work}
  mount -t overlay -o "metacopy=on,lowerdir=$1,upperdir=$2.upper,workdir=$2.work" overlay "$2"
  chown -R $user:$user "$2"
}
copy "$(go env GOCACHE)" "$dir/build"
copy "$(go env GOMODCACHE)" "$dir/modules"

cd "$dir/tree"
setpriv --reuid=$user --regid=$user --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
  env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u KUBECONFIG \
  HOME="$dir/home" TMPDIR="$dir/tmp" GOCACHE="$dir/build" GOMODCACHE="$dir/modules" "$@"

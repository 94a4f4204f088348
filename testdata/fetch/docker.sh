#!/bin/bash
# Makes a Docker daemon answer and gives it the image agentrl-test:debian (bash,
# git, python3, procps, util-linux), which the tests of sandbox/docker use. No
# image is pulled. Where this machine cannot have it, it says so and succeeds:
# the tests then skip by name. Run as root it installs what is missing
# (docker.io, iptables, debootstrap) and starts dockerd; it may be run again.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
image=agentrl-test:debian
work=$PWD/.cache/docker
sock=${DOCKER_HOST:-unix:///var/run/docker.sock}
sock=${sock#unix://}

cannot() {
	echo "docker: not on this machine: $*" >&2
	exit 0
}
answers() { curl -sf -m 5 --unix-socket "$sock" http://docker/_ping >/dev/null 2>&1; }
have_image() { curl -sf -m 10 --unix-socket "$sock" "http://docker/images/$image/json" >/dev/null 2>&1; }
need() { # need COMMAND PACKAGE...
	command -v "$1" >/dev/null && return
	shift
	command -v apt-get >/dev/null || cannot "no apt-get to install $* with"
	[ "$(id -u)" = 0 ] || cannot "installing $* needs root"
	echo "docker: installing $*"
	[ -n "${updated:-}" ] || apt-get update -qq >/dev/null 2>&1
	updated=1
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 || cannot "apt-get install $* failed"
}

mkdir -p "$work"
need curl curl
if ! answers; then
	[ "$(uname -s)" = Linux ] || cannot "no daemon at $sock, and only on Linux can one be started"
	[ "$(id -u)" = 0 ] || cannot "no daemon at $sock, and starting one needs root"
	need dockerd docker.io
	need iptables iptables
	for driver in overlay2 vfs; do
		rm -f /var/run/docker.pid
		echo "docker: starting dockerd with storage driver $driver"
		setsid dockerd --storage-driver="$driver" --host="unix://$sock" </dev/null >"$work/dockerd.log" 2>&1 &
		pid=$!
		for _ in $(seq 100); do
			answers && break 2
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.3
		done
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	answers || cannot "dockerd does not start: $(tail -n 1 "$work/dockerd.log")"
fi

if ! have_image; then
	[ "$(id -u)" = 0 ] || cannot "making $image needs root"
	need debootstrap debootstrap
	# The mirror and suite that this machine's own packages come from.
	read -r mirror suite < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
		grep -v -e security -e updates -e backports | grep /debian | head -n 1)
	[ -n "${suite:-}" ] || cannot "apt names no Debian mirror to make $image from"
	root=$(mktemp -d)
	trap 'rm -rf "$root"' EXIT
	echo "docker: making $image from $suite"
	debootstrap --variant=minbase --include=git,python3,procps,ca-certificates \
		"$suite" "$root/r" "$mirror" >"$work/debootstrap.log" 2>&1 || cannot "debootstrap failed: $(tail -n 1 "$work/debootstrap.log")"
	rm -rf "$root"/r/var/cache/apt/archives/*.deb "$root"/r/var/lib/apt/lists/* "$root"/r/usr/share/doc/*
	tar -C "$root/r" --numeric-owner -c . |
		curl -sf -X POST -H 'Content-Type: application/x-tar' -T - --unix-socket "$sock" \
			"http://docker/images/create?fromSrc=-&repo=${image%:*}&tag=${image#*:}" >"$work/import.log" || cannot "import failed"
fi
have_image || cannot "$image is missing after its import"
echo "docker: $(curl -s --unix-socket "$sock" http://docker/version | grep -o '"Version":"[^"]*"' | tail -n 1), image $image at $sock"

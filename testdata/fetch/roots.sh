#!/usr/bin/env bash
# Makes two root file systems for tests of harnesses in poor images, in
# .cache/roots: busybox.tar (no bash, no useradd, no C library) and musl.tar
# (the same with bash and musl). They are made of Debian's static busybox and
# bash and of its musl. Where they cannot be made, it says so and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=$PWD/.cache/roots
if [ -f "$cache/musl.tar" ]; then
	ls "$cache"
	exit
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "roots: not on this machine: no apt-get" >&2; exit 0; }
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get download -q busybox-static bash-static musl >/dev/null 2>&1) || { echo "roots: apt-get download failed" >&2; exit 0; }
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/debs"; done

root=$work/root
mkdir -p "$root"/{bin,etc,lib,tmp,proc,dev,sys,root,usr/bin,var/tmp,srv}
chmod 1777 "$root/tmp" "$root/var/tmp"
install -m 755 "$(find "$work/debs" -name busybox -type f -perm -u+x | head -1)" "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
tar -C "$root" --owner=0 --group=0 --numeric-owner -cf "$cache/busybox.tar" .
install -m 755 "$(find "$work/debs" -name bash-static -type f -perm -u+x | head -1)" "$root/bin/bash"
ld=$(find "$work/debs" -name libc.so -type f | head -1)
install -m 755 "$ld" "$root/lib/ld-musl-$(uname -m).so.1"
tar -C "$root" --owner=0 --group=0 --numeric-owner -cf "$cache/musl.tar" .
ls "$cache"

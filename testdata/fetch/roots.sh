#!/usr/bin/env bash
# Makes root file systems for tests of harnesses in poor images, in
# .cache/roots: busybox.tar (no bash, no useradd, no C library), musl.tar (the
# same with bash and musl), glibc-2.17.tar and glibc-2.12.tar (with bash and a
# glibc that has no symbols of later versions, like CentOS 7 and 6). They are
# made of Debian's static busybox and bash, of its musl and of its glibc, whose
# newer versions are renamed (oldglibc.py): archives of releases that old are
# not always reached. Where they cannot be made, it says so and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=$PWD/.cache/roots
if [ -f "$cache/glibc-2.12.tar" ]; then
	ls "$cache"
	exit
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "roots: not on this machine: no apt-get" >&2; exit 0; }
command -v python3 >/dev/null || { echo "roots: not on this machine: no python3" >&2; exit 0; }
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get download -q busybox-static bash-static musl libc6 >/dev/null 2>&1) || { echo "roots: apt-get download failed" >&2; exit 0; }
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
rm "$root"/lib/ld-musl-*

[ "$(uname -m)" = x86_64 ] || { ls "$cache"; exit 0; }
libs=$root/lib/x86_64-linux-gnu
mkdir "$root/lib64" "$libs"
ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64"
for version in 2.17 2.12; do
	for lib in ld-linux-x86-64.so.2 libc.so.6 libpthread.so.0 libdl.so.2 libm.so.6 librt.so.1; do
		install -m 755 "$(find "$work/debs" -name $lib | head -1)" "$libs/$lib"
	done
	python3 testdata/fetch/oldglibc.py $version "$libs"/*
	tar -C "$root" --owner=0 --group=0 --numeric-owner -cf "$cache/glibc-$version.tar" .
done
ls "$cache"

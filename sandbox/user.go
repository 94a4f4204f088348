package sandbox

import (
	"context"
	"fmt"
)

// EnsureUser makes AgentUser where the image does not have it: no password,
// a home of its own, /bin/bash or /bin/sh. useradd and its kin, which differ
// between images and are missing in many, are not needed. In a sandbox whose
// commands all run as one user there is nothing to make. It may be called
// again and by several at once.
func EnsureUser(ctx context.Context, sb Sandbox) error {
	if _, err := Output(ctx, sb, Cmd{Script: ensureUser, Replayable: true}); err != nil {
		return fmt.Errorf("make user %s: %w", AgentUser, err)
	}
	return nil
}

// The uid is the first one free from 1000 on, in passwd and group alike. The
// entries are appended under a directory as the lock: two callers at once
// would else make the user twice.
const ensureUser = `u='` + AgentUser + `'
[ -z "${` + OneUserVar + `-}" ] || exit 0
check() {
	[ "$(id -u "$u")" != 0 ] || { echo "the image's user $u has uid 0: it cannot be the unprivileged user" >&2; exit 1; }
	h=$(eval "echo ~$u")
	[ -d "$h" ] || { mkdir -p "$h" && chown "$u:" "$h"; } || exit 1
	exit 0
}
add() { # a line to a file whose last line may lack its end
	[ -z "$(tail -c 1 "$1")" ] || echo >>"$1"
	echo "$2" >>"$1"
}
id -u "$u" >/dev/null 2>&1 && check
[ "$(id -u)" = 0 ] || { echo "making a user needs root" >&2; exit 1; }
n=0
until mkdir /etc/.agentrl-user 2>/dev/null; do
	n=$((n+1)); [ $n -lt 20 ] || break
	sleep 0.2; id -u "$u" >/dev/null 2>&1 && check
done
trap 'rmdir /etc/.agentrl-user' EXIT
sh=/bin/sh; [ ! -x /bin/bash ] || sh=/bin/bash
if ! id -u "$u" >/dev/null 2>&1; then
	i=1000
	while grep -qE "^[^:]*:[^:]*:$i:" /etc/passwd /etc/group; do i=$((i+1)); done
	grep -q "^$u:" /etc/group || add /etc/group "$u:x:$i:" || exit 1
	g=$(sed -n "s/^$u:[^:]*:\([0-9]*\):.*/\1/p" /etc/group)
	[ ! -f /etc/shadow ] || grep -q "^$u:" /etc/shadow || add /etc/shadow "$u:!:19000:0:99999:7:::"
	add /etc/passwd "$u:x:$i:$g::/home/$u:$sh" || exit 1
	if [ ! -d "/home/$u" ]; then
		mkdir -p "/home/$u" && chmod 755 "/home/$u" || exit 1
		[ ! -d /etc/skel ] || cp -R /etc/skel/. "/home/$u/"
		chown -R "$i:$g" "/home/$u" || exit 1
	fi
fi
check
`

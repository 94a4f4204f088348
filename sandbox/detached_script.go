package sandbox

import (
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
)

// What a job's scripts answer, as the last line of their output.
const (
	answerExit    = "EXIT " // and the status
	answerRunning = "RUNNING"
	answerStopped = "STOPPED"
	answerLost    = "LOST"
)

// jobDirectory holds the files of all jobs. Of each there is a directory, ID,
// which is root's alone, and the script ID.sh, which the job's user has to
// read. In the directory:
//
//	run         the supervisor and the job's first steps
//	id          uid, gid and the way to become the job's user; empty for root
//	outer, sup  supervisor: the process that collects the output and the one that waits, pid and start time
//	lead        the job's first process, leader of its group and session, likewise
//	none → rc.N renamed when the job has exited with N: atomic, and possible on a full disk
//	go → stopped, end → done  renamed when it was told to stop, and when its output is complete
const jobDirectory = "/var/lib/agentrl"

func jobHeader(id, user, log string) string {
	if log != "" {
		log = Path(log)
	}
	return fmt.Sprintf("id=%s user=%s log=%s b=%s; j=\"$b/$id\"\n", shell.Quote(id), shell.Quote(user), log, Path(jobDirectory))
}

// spawnScript is what starts the job unless it was started before. The two
// files are here-documents in which nothing is expanded; the user's ends at a
// line that it cannot hold, since id is drawn at random.
func spawnScript(id, header string, d Detached) string {
	var b strings.Builder
	b.WriteString(header + jobFunctions + spawnBegin)
	b.WriteString("cat >\"$j/run\" <<'run-" + id + "' || fail 'cannot write the supervisor'\n")
	b.WriteString(header + jobFunctions + "user_env() {\n\thome=$(eval \"echo ~$user\")\n\t[ -d \"$home\" ] || return 0\n")
	for _, v := range []struct{ name, value string }{{"HOME", "home"}, {"USER", "user"}, {"LOGNAME", "user"}} {
		if _, given := d.Env[v.name]; !given {
			fmt.Fprintf(&b, "\texport %s=\"$%s\"\n", v.name, v.value)
		}
	}
	b.WriteString("}\n" + superviseScript + "run-" + id + "\n")
	b.WriteString("cat >\"$b/$id.sh\" <<'" + id + "' || fail 'cannot write the script'\n")
	b.WriteString(d.Script + "\n" + id + "\n" + spawnEnd)
	return b.String()
}

// jobFunctions are shared by all of a job's scripts. They use what POSIX sh
// has and, of /proc, files that grep reads all at once: a fork for each
// process takes seconds where there are thousands.
const jobFunctions = `fail() { echo "agentrl: $*" >&2; exit 73; }

# pause SECONDS: a sleep that knows no fractions sleeps for one second
pause() { sleep "$1" 2>/dev/null || sleep 1; }

# identify: uid, gid, how; empty when the job's user is not to be killed by
uid= gid= how=
identify() {
	if [ -e "$j/id" ]; then read -r uid gid how <"$j/id"; return 0; fi
	[ -n "$user" ] && [ -z "${` + OneUserVar + `-}" ] || return 0
	uid=$(id -u "$user" 2>/dev/null) && gid=$(id -g "$user") || fail "the sandbox has no user $user"
	[ "$uid" != "$(id -u)" ] || { uid= gid=; return 0; }
	[ "$(id -u)" = 0 ] || fail "only root can run a job as another user"
	for how in setpriv runuser chroot su; do
		(as_user true) </dev/null >/dev/null 2>&1 && return 0
	done
	fail "to run a job as $user the sandbox needs one of setpriv (util-linux), runuser, chroot --userspec (coreutils), su"
}

# as_user LINE: becomes a shell of the job's user
as_user() {
	case $how in
	setpriv) exec setpriv --reuid "$uid" --regid "$gid" --init-groups sh -c "$1" ;;
	runuser) exec runuser -u "$user" -- sh -c "$1" ;;
	chroot) exec chroot --skip-chdir --userspec="$user:" / sh -c "$1" ;;
	su) exec su -p -s /bin/sh "$user" -c "$1" ;;
	esac
}

# look PID: state, threads and start, from its line of /proc, behind the name
look() {
	state= threads= start=
	read -r line 2>/dev/null <"/proc/$1/stat" || return 1
	line=${line##*) }
	set -- $line
	state=$1 threads=${18} start=${20}
}

# runs FILE: the process noted in FILE runs; its number alone may be another's by now
runs() {
	read -r pid begun 2>/dev/null <"$j/$1" && look "$pid" && [ "$start" = "$begun" ] && [ "$state" != Z ]
}

# ended: sets code, "lost" when the supervisor is gone and left no status
ended() {
	status && return 0
	! runs sup || return 1
	status || code=lost
}
status() {
	for f in "$j"/rc.*; do
		[ -e "$f" ] || return 1
		code=${f##*.}
	done
}

# group: the leader's number, unless it has become somebody else's
group() {
	read -r lead begun 2>/dev/null <"$j/lead" || return 1
	! look "$lead" || [ "$start" = "$begun" ]
}

# members: the files of the processes in the leader's group or session
members() {
	! group || grep -lsE "\) [A-Y] [0-9]+ ([0-9]+ )?$lead " /proc/[0-9]*/stat
}

# rest: what still runs of the job; a zombie does not, unless it has threads
rest() {
	{
		[ -z "$uid" ] || grep -lsE "^Uid:.*[[:space:]]$uid([[:space:]]|\$)" /proc/[0-9]*/status
		grep -lsz "^AGENTRL_JOB=$id\$" /proc/[0-9]*/environ
		members
	} 2>/dev/null | while IFS=/ read -r none proc pid file; do
		look "$pid" || continue
		case $state in [ZX]) [ "$threads" -gt 1 ] || continue ;; esac
		echo "$pid"
	done
}

# sweep: kills it; kill -1 reaches what forks faster than it can be listed
sweep() {
	identify
	[ -z "$uid" ] || (as_user 'kill -KILL -1') </dev/null >/dev/null 2>&1
	i=0
	while left=$(rest) && [ -n "$left" ]; do
		[ $i -lt 60 ] || return 1
		kill -KILL $left 2>/dev/null
		[ $i -lt 3 ] || pause 0.1
		i=$((i + 1))
	done
	return 0
}

finish() {
	sweep || fail "cannot kill what is left of the job:" $left
	i=0
	until [ -e "$j/done" ] || ! runs outer || [ $i -ge 100 ]; do pause 0.03; i=$((i + 1)); done
	[ ! -e "$j/stopped" ] || code=stopped
	case $code in
	stopped) echo ` + answerStopped + ` ;;
	lost) echo ` + answerLost + ` ;;
	*) echo "` + answerExit + `$code" ;;
	esac
	exit 0
}
`

// The directory is the lock: whoever makes it starts the job. A failed mkdir
// means "started before" only where the directory is there; anything else is
// a failure and not a job to wait for.
const spawnBegin = `umask 022
[ -r /proc/self/stat ] || fail "a detached command needs /proc in the sandbox"
for tool in setsid grep cat mv chown; do
	command -v $tool >/dev/null || fail "a detached command needs $tool in the sandbox"
done
if [ ! -d "$j" ]; then
	identify
	mkdir -p "$b" && chmod 711 "$b" || fail "cannot make the directory of jobs"
fi
if ! why=$(mkdir -m 700 "$j" 2>&1); then
	[ -d "$j" ] || fail "$why"
	i=0
	until [ -e "$j/sup" ] || status; do
		[ $i -lt 100 ] || fail "an earlier attempt to start the job broke off"
		pause 0.1
		i=$((i + 1))
	done
	exit 0
fi
echo "$uid $gid $how" >"$j/id" && : >"$j/none" && : >"$j/go" && : >"$j/end" || fail "cannot write the job's files"
`

// A background command of a shell has SIGINT and SIGQUIT ignored, for good. So
// the supervisor is started in the foreground: a setsid that leads a group, as
// the second does by the first, forks and does not wait.
const spawnEnd = `chmod 755 "$b/$id.sh" || fail "cannot make the script readable"
if [ -n "$log" ]; then
	mkdir -p "${log%/*}/" && rm -f "$log" && (set -C && : >"$log") || fail "cannot make the log $log"
	[ -z "$uid" ] || chown "$user" "$log" || fail "cannot give the log to $user"
fi
setsid setsid sh "$j/run" supervise </dev/null >/dev/null 2>&1
i=0
until [ -e "$j/sup" ]; do
	[ $i -lt 500 ] || fail "the job's supervisor does not start"
	pause 0.02
	i=$((i + 1))
done
`

// superviseScript runs as root, in a session of its own, where the job's user
// cannot reach it. The output goes through a pipe, which the user may open
// anew: to a file, echo x >/dev/stderr would cut off all that came before.
const superviseScript = `me() {
	read -r pid line </proc/self/stat
	line=${line##*) }
	set -- $line
	echo "$pid ${20}"
}
supervise() {
	me >"$j/outer"
	{
		me >"$j/sup.new" && mv "$j/sup.new" "$j/sup"
		setsid sh "$j/run" lead </dev/null 2>&1
		mv "$j/none" "$j/rc.$?"
	} 2>/dev/null | cat >>"${log:-/dev/null}"
	mv "$j/end" "$j/done"
}
lead() {
	me >"$j/lead.new" && mv "$j/lead.new" "$j/lead"
	identify
	export AGENTRL_JOB="$id"
	umask 022
	[ -z "$user" ] || user_env
	if [ -n "$uid" ]; then
		chown "$user" /proc/self/fd/1 2>/dev/null
		as_user "exec sh $b/$id.sh"
	fi
	for kill in --kill-child ''; do
		unshare -pf $kill --mount-proc true >/dev/null 2>&1 || continue
		exec unshare -pf $kill --mount-proc sh -c 'trap : TERM; sh "$0" 2>&1; exit $?' "$b/$id.sh" 2>/dev/null
	done
	exec sh "$b/$id.sh"
}
$1
`

// waitScript holds its request for twenty seconds, so that an end is seen at
// once and one request serves for many looks.
const waitScript = `[ -d "$j" ] || fail "the job's files have disappeared"
k=0
while [ $k -lt 130 ]; do
	! ended || finish
	pause 0.15
	k=$((k + 1))
done
echo ` + answerRunning + `
`

// stopScript takes grace, in seconds. A job that has exited by itself before
// it is told to stop has exited.
const stopScript = `[ -d "$j" ] || fail "the job's files have disappeared"
if [ ! -e "$j/stopped" ]; then
	! ended || finish
	mv "$j/go" "$j/stopped" 2>/dev/null
fi
! group || kill -TERM "-$lead" 2>/dev/null
k=0
until { ended && [ -z "$(members)" ]; } || [ $k -ge $((grace * 10)) ]; do pause 0.1; k=$((k + 1)); done
finish
`

const cleanScript = `rm -rf "$j" "$b/$id.sh"
`

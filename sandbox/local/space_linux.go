package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/agentrl-go/agentrl/sandbox"
)

// space is the namespaces of one sandbox, held by its first process: a shell
// of ours that waits for the end of its input, so that it ends with us at the
// latest, and with it everything in its PID namespace and every mount.
type space struct {
	init  *exec.Cmd
	input io.Closer
	over  chan struct{} // closed when init has ended
	ended atomic.Bool
	enter []string // nsenter and its flags
	net   *relay   // for EgressAdapter
}

// setup is run by init, in new namespaces but on the host's files. $1 is the
// sandbox's directory; $2 options of overlays; then the parts of the image, as
// KIND:PLACE; see parts. Layer N is u.N over l.N. When the directory cannot be
// an upper layer, one in memory can.
const setup = `set -eu
exec 3<&0
d=$1 opts=$2 n=0
shift 2
mount --make-rprivate / 2>/dev/null || mount --make-rslave /
umask 022
above() { # PLACE: the way down to the work directory, whose owners the namespace may not know: such a directory is not copied up
	case $WORKDIR in "$1"/*) rest=${WORKDIR#"$1"/} at= ;; *) return 0 ;; esac
	while [ -n "$rest" ]; do
		at=$at/${rest%%/*}
		[ -d "$d/l.$n$at" ] || return 0
		mkdir -p "$u/u.$n$at"
		chmod "$(stat -c %a "$d/l.$n$at")" "$u/u.$n$at"
		case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
	done
}
layer() { # PLACE
	mkdir -p "$u/u.$n" "$u/w.$n"
	case $1 in
	/tmp | /var/tmp) chmod 1777 "$u/u.$n" ;;
	/var) [ -z "$opts" ] || mkdir -p "$u/u.$n/lib" ;;
	esac
	[ -z "$opts" ] || above "${1%/}"
	mount -t overlay -o "lowerdir=$d/l.$n,upperdir=$u/u.$n,workdir=$u/w.$n$opts" agentrl "$d/m$1"
}
u=$d
for part; do
	place=${part#*:}
	case $part in
	root:*)
		if ! why=$(layer / 2>&1); then
			mount -t tmpfs -o mode=755 agentrl "$d/t" || { echo "$why" >&2; exit 1; }
			u=$d/t
			layer / || exit 1
		fi ;;
	bare:*) mount --bind "$d/m" "$d/m" ;;
	dir:*) mkdir "$d/m$place" ;;
	copy:*) cp -RPp "$place" "$d/m$place" || : ;;
	layer:*)
		n=$((n + 1))
		[ -d "$place" ] || continue # unmounted since
		[ -d "$d/m$place" ] || mkdir -p "$d/m$place"
		why=$(layer "$place" 2>&1) || [ "$u" != "$d" ] || {
			mount -t tmpfs -o mode=755 agentrl "$d/t"
			u=$d/t
			why=$(layer "$place" 2>&1)
		} || echo "agentrl: the sandbox is without $place: $why" >&2 ;;
	esac
done
cd "$d/m"
for dir in proc dev sys tmp etc root; do [ -d $dir ] || mkdir $dir; done
mount -t proc proc proc
mount -t tmpfs -o mode=755,nosuid dev dev
for node in null zero full random urandom tty; do
	: >dev/$node
	mount --bind /dev/$node dev/$node
done
ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts && ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777,nosuid,nodev shm dev/shm
mount -t sysfs -o ro sysfs sys 2>/dev/null || :
if [ -n "$opts" ]; then # one user, under both names
	{ grep -v '^agent:' etc/passwd; echo 'agent:x:0:0::/home/agent:/bin/sh'; } >etc/.passwd && mv etc/.passwd etc/passwd
	mkdir -p home/agent
fi
if [ $# = 1 ] && [ ! -s etc/resolv.conf ] && [ -s /etc/resolv.conf ]; then
	names=$(cat /etc/resolv.conf); rm -f etc/resolv.conf; echo "$names" >etc/resolv.conf
fi
pivot_root . .
umount -l . 2>/dev/null || :
cd /
[ -x /bin/sh ] || { echo "the image has no /bin/sh" >&2; exit 1; }
echo ready
exec /bin/sh -c '(while read -r line; do :; done) <&3 & exec 3<&-; wait $!' >/dev/null 2>&1
`

// setupPath is where the host keeps the tools of setup.
const setupPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// start makes the namespaces and waits until the sandbox's root is in place.
func (s *space) start(ctx context.Context, b *box) error {
	if err := s.prepare(b); err != nil {
		return err
	}
	parts, err := parts(b)
	if err != nil {
		return err
	}
	opts := ""
	if b.way == UserNamespace {
		opts = ",userxattr"
	}
	s.init = exec.Command("sh", append([]string{"-c", setup, "sh", b.dir, opts}, parts...)...)
	s.init.Env = []string{setupPath, "LC_ALL=C", markVar + "=" + b.id, "WORKDIR=" + b.spec.Workdir}
	s.init.SysProcAttr = cloneFlags(b)
	var said bytes.Buffer
	s.init.Stderr = &said
	if s.input, err = s.init.StdinPipe(); err != nil {
		return err
	}
	out, err := s.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.init.Start(); err != nil {
		return fmt.Errorf("new namespaces: %w", err)
	}
	unwatch := context.AfterFunc(ctx, func() { _ = s.init.Process.Kill() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	unwatch()
	s.over = make(chan struct{})
	go func() {
		_ = s.init.Wait()
		s.ended.Store(true)
		close(s.over)
	}()
	if line != "ready\n" || ctx.Err() != nil {
		err := s.stop()
		return errors.Join(context.Cause(ctx), fmt.Errorf("set up the root: %s", strings.TrimSpace(said.String())), err)
	}
	if err := s.network(b); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// prepare looks for the way in and makes the directories of the layers.
func (s *space) prepare(b *box) error {
	nsenter, err := lookTool("nsenter")
	if err != nil {
		return err
	}
	s.enter = []string{nsenter, "-m", "-u", "-i", "-p", "-r", "-w"}
	if b.way == UserNamespace {
		s.enter = append(s.enter, "-U", "--preserve-credentials")
	}
	if b.spec.Egress != sandbox.EgressOpen {
		s.enter = append(s.enter, "-n")
	}
	if strings.ContainsAny(b.dir, ":,\\ \t\n") {
		return fmt.Errorf("the directory of sandboxes %q has a character that mount options cannot have", b.dir)
	}
	for _, dir := range []string{"m", "t", "u.0", "w.0"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
			return err
		}
	}
	return os.Symlink(b.image, filepath.Join(b.dir, "l.0"))
}

// lookTool finds a tool of the host that a user's PATH may not lead to.
func lookTool(name string) (string, error) {
	for _, dir := range filepath.SplitList(strings.TrimPrefix(setupPath, "PATH=")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s (util-linux) is not on this machine", name)
}

func cloneFlags(b *box) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if b.spec.Egress != sandbox.EgressOpen {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if b.way == UserNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// enterScript is what a command is started by: $1 the directory, $2 the
// sandbox's nonce, $3 the script.
const enterScript = `cd -- "$1" 2>/dev/null || { echo "$2" >&2; exit 125; }
unset OLDPWD
exec sh -c "$3"`

func (s *space) command(ctx context.Context, b *box, cmd sandbox.Cmd, home string) (*exec.Cmd, int, error) {
	args := append(s.enter[1:len(s.enter):len(s.enter)], "-t", strconv.Itoa(s.init.Process.Pid))
	owner := 0
	if b.way == Namespaces && cmd.User != "" && cmd.User != "root" {
		u, err := b.lookUp(ctx, cmd.User)
		if err != nil {
			return nil, 0, err
		}
		args = append(args, "-S", u.uid, "-G", u.gid)
		home = u.home
		owner, _ = strconv.Atoi(u.uid)
	}
	env, err := b.env(cmd, home)
	if err != nil {
		return nil, 0, err
	}
	c := command(s.enter[0], append(args, "--", "/bin/sh", "-c", enterScript, "sh", cmd.Dir, b.nonce, cmd.Script)...)
	c.Env = env
	return c, owner, nil
}

// stop kills the first process, and the kernel everything else in there.
func (s *space) stop() error {
	if s.net != nil {
		s.net.close()
	}
	if s.init == nil || s.over == nil {
		return nil
	}
	_ = s.init.Process.Kill()
	s.input.Close()
	<-s.over
	return nil
}

// dead reports whether the first process has ended, on its own or by us.
func (s *space) dead() bool {
	if s.ended.Load() {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.init.Process.Pid))
	if err != nil {
		return true
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return len(after) > 1 && after[1] == 'Z'
}

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Home is where harnesses keep their programs in a sandbox: readable by all,
// owned by root.
const Home = "/opt/agentrl"

// A CLI is a command-line agent as a sandbox has it.
type CLI struct {
	Name  string   // of the program, "claude"
	Store *Store   // nil when nothing is installed from this machine
	Asset Asset    // the program for images with glibc, or for all; the zero value uses the image's own
	Musl  Asset    // the program for images with musl; the zero value uses Asset there too
	Node  Asset    // node, for an asset that is a package of scripts; the zero value uses the image's own
	Names []string // what it may be called in a tarball; nil means Name
	Hint  string   // where to get the asset and how to configure it, for errors
}

// Bin is the path of an installed program.
func (c CLI) Bin() string { return Home + "/bin/" + c.Name }

// Command is the start of a script that runs the program: the installed one,
// or the image's own. The words that follow are its arguments.
func (c CLI) Command() string {
	return fmt.Sprintf("bin=%s; [ -x \"$bin\" ] || bin=%s; exec \"$bin\"", sandbox.Path(c.Bin()), shell.Quote(c.Name))
}

// Check reports what is wrong with the CLI's assets, before any sandbox is.
func (c CLI) Check() error {
	if c.Store == nil {
		return nil
	}
	var errs []error
	for _, a := range []Asset{c.Asset, c.Musl, c.Node} {
		errs = append(errs, c.Store.Check(a))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w; %s", err, c.Hint)
	}
	return nil
}

// InstallError says why a program cannot be used in an image. It is permanent.
type InstallError struct{ Name, Reason string }

func (e *InstallError) Error() string { return fmt.Sprintf("install %s: %s", e.Name, e.Reason) }

// Permanent reports true: another sandbox of the same image does not help.
func (e *InstallError) Permanent() bool { return true }

// Install puts the program into the sandbox unless the same one is there
// already, and runs `--version` as the agent user. In an image that was
// prepared by an Install before (a container committed, a template built)
// nothing is uploaded, and in one that has the very same program in its PATH
// neither. It returns what `--version` printed.
func (c CLI) Install(ctx context.Context, sb sandbox.Sandbox) (string, error) {
	if err := sandbox.EnsureUser(ctx, sb); err != nil {
		return "", err
	}
	if c.Asset.Path != "" {
		if err := c.place(ctx, sb); err != nil {
			return "", err
		}
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: c.Command() + " --version", User: sandbox.AgentUser, Dir: "/tmp", Replayable: true})
	switch {
	case err != nil:
		return "", err
	case (res.Code == 127 || res.Code == 126) && c.Asset.Path == "":
		return "", &InstallError{c.Name, "the image does not have it, and no file to install it from is configured; " + c.Hint}
	case !res.Ok():
		return "", &InstallError{c.Name, fmt.Sprintf("`%s --version` as the agent user: exit %d%s: %.400s", c.Name, res.Code, res.Signal, bytes.TrimSpace(append(res.Stderr, res.Stdout...)))}
	}
	version := LastLines(append(res.Stderr, res.Stdout...), 1) // pi prints it to stderr
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Env: map[string]string{"VERSION": version}, Script: fmt.Sprintf(
		`mkdir -p %s && printf '%%s\n' "$VERSION" >%s`, sandbox.Path(Home+"/bin"), sandbox.Path(c.VersionFile()))})
	return version, err
}

// VersionFile is the path of what `--version` printed when it was installed.
func (c CLI) VersionFile() string { return c.Bin() + ".version" }

// place brings the asset that suits the image into it, unless one of them is
// there already.
func (c CLI) place(ctx context.Context, sb sandbox.Sandbox) error {
	var loads []load
	for _, asset := range []Asset{c.Asset, c.Musl} {
		if asset.Path == "" {
			continue
		}
		l, err := c.load(asset)
		if err != nil {
			return err
		}
		if there, err := l.there(ctx, sb); err != nil || there {
			return err
		}
		loads = append(loads, l)
	}
	l, err := c.fitting(ctx, sb, loads)
	if err != nil {
		return err
	}
	return l.put(ctx, sb)
}

// A load is what is put into a sandbox for one asset.
type load struct {
	cli     CLI
	program Program
	node    Program // File is "" without one
}

func (c CLI) load(asset Asset) (load, error) {
	names := c.Names
	if names == nil {
		names = []string{c.Name}
	}
	p, err := c.Store.Program(asset, names...)
	if err != nil || p.Entry == "" || c.Node.Path == "" {
		return load{cli: c, program: p}, err
	}
	node, err := c.Store.Program(c.Node, "node")
	if err == nil && node.Entry != "" {
		err = &AssetError{c.Node, "holds no native program \"node\""}
	}
	return load{c, p, node}, err
}

// natives are the load's native programs by name.
func (l load) natives() map[string]Program {
	switch {
	case l.program.Entry == "":
		return map[string]Program{l.cli.Name: l.program}
	case l.node.File != "":
		return map[string]Program{"node": l.node}
	}
	return nil
}

func (l load) there(ctx context.Context, sb sandbox.Sandbox) (bool, error) {
	for name, p := range l.natives() {
		if there, err := present(ctx, sb, name, p); err != nil || !there {
			return false, err
		}
	}
	if l.program.Entry == "" {
		return true, nil
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: fmt.Sprintf("bin=%s; mark=%s\n%s", sandbox.Path(l.cli.Bin()), l.packageMark(), onlyMark+"marked"), Replayable: true})
	return res.Ok(), err
}

func (l load) put(ctx context.Context, sb sandbox.Sandbox) error {
	for name, p := range l.natives() {
		if err := upload(ctx, sb, name, p); err != nil {
			return err
		}
	}
	if l.program.Entry == "" {
		return nil
	}
	return l.putPackage(ctx, sb)
}

func (l load) packageMark() string { return sandbox.Path(l.cli.Bin() + "." + l.program.SHA256[:16]) }

// putPackage unpacks a package of scripts and makes a launcher for it, which
// takes the node beside it or the image's own.
func (l load) putPackage(ctx context.Context, sb sandbox.Sandbox) error {
	c := l.cli
	lib := Home + "/lib/" + c.Name
	if err := unmark(ctx, sb, c.Bin()); err != nil {
		return err
	}
	if err := send(ctx, sb, lib+".tar", l.program.File); err != nil {
		return fmt.Errorf("upload %s: %w", c.Name, err)
	}
	launcher := "#!/bin/sh\nhere=${0%/*}; node=$here/node; [ -x \"$node\" ] || node=node\nexec \"$node\" \"$here/../lib/\"" + shell.Quote(c.Name+"/"+l.program.Entry) + " \"$@\"\n"
	if err := sb.WriteFile(ctx, c.Bin(), "", strings.NewReader(launcher)); err != nil {
		return fmt.Errorf("write launcher: %w", err)
	}
	_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: fmt.Sprintf(`set -e; lib=%s
rm -rf "$lib"; mkdir -p "$lib"; tar -xof "$lib.tar" -C "$lib"; rm -f "$lib.tar"; chmod -R a+rX "$lib"
chmod 755 %s %s %s %s; : >%s`, sandbox.Path(lib), sandbox.Path(Home), sandbox.Path(Home+"/bin"), sandbox.Path(Home+"/lib"), sandbox.Path(c.Bin()), l.packageMark())})
	return err
}

// header names a native program's path and mark for scripts.
func header(name string, p Program) string {
	bin := Home + "/bin/" + name
	return fmt.Sprintf("bin=%s; mark=%s; home=%s\n", sandbox.Path(bin), sandbox.Path(bin+"."+p.SHA256[:16]), sandbox.Path(Home))
}

// present reports whether a native program is there: under a mark of ours, or
// with the same content in the image's PATH, which then is linked.
func present(ctx context.Context, sb sandbox.Sandbox, name string, p Program) (bool, error) {
	info, err := os.Stat(p.File)
	if err != nil {
		return false, err
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: header(name, p) + presentScript, Replayable: true, Env: map[string]string{
		"NAME": name, "SIZE": fmt.Sprint(info.Size()), "SUM": p.SHA256,
	}})
	return res.Ok(), err
}

// upload streams a native program in.
func upload(ctx context.Context, sb sandbox.Sandbox, name string, p Program) error {
	if err := unmark(ctx, sb, Home+"/bin/"+name); err != nil {
		return err
	}
	if err := send(ctx, sb, Home+"/bin/"+name, p.File); err != nil {
		return fmt.Errorf("upload %s: %w", name, err)
	}
	_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: header(name, p) + `chmod 755 "$home" "$home/bin" "$bin" && : >"$mark"`})
	return err
}

// unmark removes the marks of a program that is about to be replaced: one that
// stayed would claim, for a version that is there no more, that it is.
func unmark(ctx context.Context, sb sandbox.Sandbox, bin string) error {
	_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: "bin=" + sandbox.Path(bin) + `; rm -f "$bin".` + markGlob, Replayable: true})
	return err
}

// A mark is a program's path and 16 digits of its hash.
const markGlob = `????????????????`

// onlyMark does not believe one mark of several, of which an image that was
// prepared twice may have been left with.
const onlyMark = `marked() { set -- "$bin".` + markGlob + `; [ -x "$bin" ] && [ $# = 1 ] && [ -e "$mark" ]; }
`

// presentScript exits with 0 when the program is there. The size is compared
// first: hashing a wrong one of 400 MB would cost more than it saves.
const presentScript = onlyMark + `marked && exit 0
own=$(command -v "$NAME") || exit 1
[ "$(wc -c <"$own")" -eq "$SIZE" ] && [ "$(sha256sum <"$own" | cut -d' ' -f1)" = "$SUM" ] || exit 1
mkdir -p "$home/bin" && rm -f "$bin".` + markGlob + ` && ln -sf "$own" "$bin" && chmod 755 "$home" "$home/bin" && : >"$mark"`

func send(ctx context.Context, sb sandbox.Sandbox, path, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return sb.WriteFile(ctx, path, "", f)
}

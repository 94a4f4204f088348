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

// place brings the asset that suits the image into it.
func (c CLI) place(ctx context.Context, sb sandbox.Sandbox) error {
	asset := c.Asset
	if c.Musl.Path != "" {
		musl, err := isMusl(ctx, sb)
		if err != nil {
			return err
		}
		if musl {
			asset = c.Musl
		}
	}
	names := c.Names
	if names == nil {
		names = []string{c.Name}
	}
	p, err := c.Store.Program(asset, names...)
	if err != nil {
		return err
	}
	if p.Entry == "" {
		return upload(ctx, sb, c.Name, p)
	}
	if c.Node.Path == "" {
		return c.placePackage(ctx, sb, p)
	}
	node, err := c.Store.Program(c.Node, "node")
	if err != nil {
		return err
	}
	if node.Entry != "" {
		return &AssetError{c.Node, "holds no native program \"node\""}
	}
	if err := upload(ctx, sb, "node", node); err != nil {
		return err
	}
	return c.placePackage(ctx, sb, p)
}

// placePackage unpacks a package of scripts and makes a launcher for it, which
// takes the node beside it or the image's own.
func (c CLI) placePackage(ctx context.Context, sb sandbox.Sandbox, p Program) error {
	mark := sandbox.Path(c.Bin() + "." + p.SHA256[:16])
	there, err := sb.Exec(ctx, sandbox.Cmd{Script: "[ -e " + mark + " ]", Replayable: true})
	if err != nil || there.Ok() {
		return err
	}
	lib := Home + "/lib/" + c.Name
	if err := send(ctx, sb, lib+".tar", p.File); err != nil {
		return fmt.Errorf("upload %s: %w", c.Name, err)
	}
	launcher := "#!/bin/sh\nhere=${0%/*}; node=$here/node; [ -x \"$node\" ] || node=node\nexec \"$node\" \"$here/../lib/\"" + shell.Quote(c.Name+"/"+p.Entry) + " \"$@\"\n"
	if err := sb.WriteFile(ctx, c.Bin(), "", strings.NewReader(launcher)); err != nil {
		return fmt.Errorf("write launcher: %w", err)
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: fmt.Sprintf(`set -e; lib=%s
rm -rf "$lib"; mkdir -p "$lib"; tar -xof "$lib.tar" -C "$lib"; rm -f "$lib.tar"; chmod -R a+rX "$lib"
chmod 755 %s %s %s %s; : >%s`, sandbox.Path(lib), sandbox.Path(Home), sandbox.Path(Home+"/bin"), sandbox.Path(Home+"/lib"), sandbox.Path(c.Bin()), mark)})
	return err
}

// upload streams a native program in unless it is there: under a mark of ours,
// or with the same content in the image's PATH, which then is linked.
func upload(ctx context.Context, sb sandbox.Sandbox, name string, p Program) error {
	info, err := os.Stat(p.File)
	if err != nil {
		return err
	}
	bin := Home + "/bin/" + name
	header := fmt.Sprintf("bin=%s; mark=%s; home=%s\n", sandbox.Path(bin), sandbox.Path(bin+"."+p.SHA256[:16]), sandbox.Path(Home))
	there, err := sb.Exec(ctx, sandbox.Cmd{Script: header + presentScript, Replayable: true, Env: map[string]string{
		"NAME": name, "SIZE": fmt.Sprint(info.Size()), "SUM": p.SHA256,
	}})
	if err != nil || there.Ok() {
		return err
	}
	if err := send(ctx, sb, bin, p.File); err != nil {
		return fmt.Errorf("upload %s: %w", name, err)
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: header + `chmod 755 "$home" "$home/bin" "$bin" && : >"$mark"`})
	return err
}

// presentScript exits with 0 when the program is there. The size is compared
// first: hashing a wrong one of 400 MB would cost more than it saves.
const presentScript = `[ -x "$bin" ] && [ -e "$mark" ] && exit 0
own=$(command -v "$NAME") || exit 1
[ "$(wc -c <"$own")" -eq "$SIZE" ] && [ "$(sha256sum <"$own" | cut -d' ' -f1)" = "$SUM" ] || exit 1
mkdir -p "$home/bin" && ln -sf "$own" "$bin" && chmod 755 "$home" "$home/bin" && : >"$mark"`

func send(ctx context.Context, sb sandbox.Sandbox, path, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return sb.WriteFile(ctx, path, "", f)
}

// isMusl reports whether the image's C library is musl alone.
func isMusl(ctx context.Context, sb sandbox.Sandbox) (bool, error) {
	res, err := sb.Exec(ctx, sandbox.Cmd{Replayable: true, Script: "r=" + sandbox.Path("") +
		`; ls "$r"/lib/ld-musl-* >/dev/null 2>&1 && ! ls "$r"/lib*/ld-linux-* "$r"/lib/*/ld-linux-* >/dev/null 2>&1`})
	return res.Ok(), err
}

package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// A user is a line of /etc/passwd.
type user struct {
	uid, gid, home string
}

// lookUp finds a user in the sandbox's /etc/passwd. The lines of those it has
// found are kept: nobody renumbers a user.
func (b *box) lookUp(ctx context.Context, name string) (user, error) {
	if u, ok := b.users.Load(name); ok {
		return u.(user), nil
	}
	c, _, err := b.command(ctx, sandbox.Cmd{Script: "exec cat /etc/passwd"})
	if err != nil {
		return user{}, err
	}
	res, err := b.run(ctx, c, 0)
	if err != nil {
		return user{}, fmt.Errorf("look up user %s: %w", name, err)
	}
	for line := range strings.Lines(string(res.Stdout)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 7 || f[0] != name {
			continue
		}
		u := user{uid: f[2], gid: f[3], home: f[5]}
		b.users.Store(name, u)
		return u, nil
	}
	return user{}, fmt.Errorf("the sandbox has no user %q: %w", name, sandbox.ErrInvalid)
}

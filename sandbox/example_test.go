package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// A sandbox is made, used and closed. Any Provider goes in place of the fake.
func ExampleProvider() {
	var provider sandbox.Provider = &sandboxtest.Fake{}
	ctx := context.Background()
	sb, err := provider.Create(ctx, sandbox.Spec{Image: "python:3.12", Workdir: "/repo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close() // once more is no harm

	if err := sb.WriteFile(ctx, "/repo/NOTE", sandbox.AgentUser, strings.NewReader("hello")); err != nil {
		fmt.Println(err)
		return
	}
	file, err := sb.ReadFile(ctx, "/repo/NOTE")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	fmt.Println(string(text), err)

	fmt.Println(sb.Close())
	_, err = sb.Exec(ctx, sandbox.Cmd{Script: "ls"})
	fmt.Println(errors.Is(err, sandbox.ErrGone))
	// Output:
	// hello <nil>
	// <nil>
	// true
}

// A command that fails is a Result; an error would mean that its outcome is
// not known.
func ExampleSandbox() {
	fake := &sandboxtest.Fake{ExecFunc: func(context.Context, *sandboxtest.FakeSandbox, sandbox.Cmd) (sandbox.Result, error) {
		return sandbox.Result{Code: 1, Stderr: []byte("1 test failed")}, nil
	}}
	sb, err := fake.Create(context.Background(), sandbox.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	res, err := sb.Exec(context.Background(), sandbox.Cmd{Script: "sh run_tests.sh", User: sandbox.AgentUser, Dir: "/repo"})
	fmt.Println(err, res.Ok(), res.Code, string(res.Stderr))
	// Output: <nil> false 1 1 test failed
}

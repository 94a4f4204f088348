//go:build !amd64

package local

import "syscall"

const sysSetns = syscall.SYS_SETNS

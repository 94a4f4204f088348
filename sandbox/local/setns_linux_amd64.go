package local

// sysSetns is the number of setns(2), which package syscall lacks on amd64.
const sysSetns = 308

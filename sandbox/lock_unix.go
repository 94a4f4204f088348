//go:build unix

package sandbox

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of a file, which the system gives back when the
// process dies, however it does. alive: somebody else holds it.
func tryLock(path string) (f *os.File, alive bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, false, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, true, nil
	}
	return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
}

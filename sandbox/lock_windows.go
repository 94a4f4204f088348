package sandbox

import (
	"errors"
	"io/fs"
	"os"
)

// tryLock takes a file by holding it open: Windows removes no open file, and
// closes those of a process that dies. alive: somebody else holds it.
func tryLock(path string) (f *os.File, alive bool, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return f, false, err
}

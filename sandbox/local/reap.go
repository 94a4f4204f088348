package local

import "os"

func (b *box) record() error { return os.Mkdir(b.dir, 0o700) }

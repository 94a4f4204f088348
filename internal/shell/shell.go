// Package shell quotes words for POSIX shells.
package shell

import "strings"

// Quote returns s as one word of a POSIX shell, whatever bytes are in it. A
// NUL cannot be in a word of any shell; it is left for the shell to refuse.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

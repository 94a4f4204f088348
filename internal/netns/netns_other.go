//go:build !linux

// Package netns needs Linux; elsewhere it says so.
package netns

import "errors"

// A Relay cannot be made here.
type Relay struct{}

// Listen fails: there are no network namespaces here.
func Listen(path, addr, to string) (*Relay, error) {
	return nil, errors.New("netns: network namespaces need Linux")
}

// Close does nothing.
func (r *Relay) Close() error { return nil }

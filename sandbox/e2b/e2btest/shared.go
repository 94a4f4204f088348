//go:build linux

package e2btest

import (
	"log"
	"path/filepath"
)

// boot gives the sandbox its machine: one of its own, or its template's.
func (s *Server) boot(m *machine, script string) error {
	if s.opts.Shared == "" || m.template != s.opts.Shared {
		return m.boot(script)
	}
	shared, err := s.sharedMachine(script)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxy = shared.proxy
	close(m.ready)
	return nil
}

// sharedMachine boots the machine of the shared template once.
func (s *Server) sharedMachine(script string) (*machine, error) {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if s.shared != nil {
		return s.shared, nil
	}
	m := &machine{id: "shared", opts: s.opts, ready: make(chan struct{}), log: log.New(&s.aborts, "", 0)}
	m.dir = filepath.Join(s.dir, m.id)
	if err := m.boot(script); err != nil {
		m.kill()
		return nil, err
	}
	s.shared = m
	return m, nil
}

// endShared ends that machine.
func (s *Server) endShared() {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if s.shared != nil {
		s.shared.kill()
	}
}

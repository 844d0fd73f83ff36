package apply

import "github.com/berth-project/berth/internal/cgroup"

// groups keeps the groups of one call open, each opened once: all of its
// reads and writes then mean the same directory.
type groups struct {
	host Host
	open map[string]*cgroup.Group
}

func (a *Applier) open() *groups {
	return &groups{host: a.host, open: make(map[string]*cgroup.Group)}
}

func (s *groups) get(path string) (*cgroup.Group, error) {
	if g := s.open[path]; g != nil {
		return g, nil
	}
	g, err := s.host.Group(path)
	if err != nil {
		return nil, err
	}
	s.open[path] = g
	return g, nil
}

func (s *groups) close() {
	for _, g := range s.open {
		_ = g.Close() // only read through
	}
}

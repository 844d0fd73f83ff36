package cgroup

// Opener opens groups. *Host is one.
type Opener interface {
	Group(path string, of ...Controller) (*Group, error)
}

// Peek returns what look reads of a group, which is opened for that and closed. Errors are those of
// Host.Group and of look.
func Peek[T any](host Opener, path string, look func(*Group) (T, error), of ...Controller) (T, error) {
	g, err := host.Group(path, of...)
	if err != nil {
		return *new(T), err
	}
	defer g.Close()
	return look(g)
}

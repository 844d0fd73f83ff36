package cgroup

// Opener opens groups. *Host implements it.
type Opener interface {
	Group(path string, of ...Controller) (*Group, error)
}

// Peek opens a group, returns the result of look, and closes the group. The errors are those of Host.Group and of look.
func Peek[T any](host Opener, path string, look func(*Group) (T, error), of ...Controller) (T, error) {
	g, err := host.Group(path, of...)
	if err != nil {
		return *new(T), err
	}
	defer g.Close()
	return look(g)
}

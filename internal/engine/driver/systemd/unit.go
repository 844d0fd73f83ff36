package systemd

import "strings"

// UnitOf returns the unit of the system's own systemd whose group is at path, "" for another group. The unit is the
// last element of the path, without the "_" that systemd puts before names that could be mistaken for a kernel file.
// All groups above it are slices. systemd has no groups below a service or a scope
// (https://systemd.io/CGROUP_DELEGATION, and cg_path_get_unit in its source). Such groups belong to a payload, for
// example a user's systemd in user@1000.service: its dbus.service is not the unit that the system's systemd knows by
// that name.
func UnitOf(path string) string {
	at := strings.LastIndexByte(path, '/') + 1
	for above := range strings.SplitSeq(strings.TrimSuffix(path[:at], "/"), "/") {
		if above != "" && !strings.HasSuffix(above, ".slice") {
			return ""
		}
	}
	name := strings.TrimPrefix(path[at:], "_")
	for _, suffix := range []string{".service", ".scope", ".slice"} {
		if len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return ""
}

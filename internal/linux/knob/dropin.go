package knob

import (
	"path"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// persistent is where systemctl set-property without --runtime has its files.
const persistent = "/etc/systemd/system.control"

// DropIn returns a file that gives a unit another list of CPUs or memory nodes than the one that systemd was given
// until the next boot; "" if there is none. At each daemon-reload systemd reads the drop-ins of a unit in the order of
// their names, whichever directory they are in, and one in /etc instead of one of the same name in /run
// (systemd.unit(5)). The list until the next boot is in /run/systemd/system.control, in 50-PROPERTY.conf. DropIn
// ignores files for all units of a kind, files of generators, and files that cannot be read.
func DropIn(h *Host, unit, property, list string) string {
	given, _ := cpuset.Parse(list) // empty for an invalid one: every file is another list then
	own := "50-" + property + ".conf"
	for _, dir := range []string{persistent, "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"} {
		at := dir + "/" + unit + ".d/"
		for _, name := range h.names(at) {
			instead := dir == persistent && name == own
			if !instead && (name <= own || path.Ext(name) != ".conf") {
				continue
			}
			if its, assigns := assigned(h.Text(at+name), property); (assigns || instead) && its != given {
				return at + name
			}
		}
	}
	return ""
}

// assigned returns the list that a drop-in assigns to a property, and whether it assigns one. Lists of several lines
// add up, and an empty one begins again.
func assigned(text, property string) (list cpuset.Set, assigns bool) {
	for _, line := range SysctlLines(text) {
		if line.Key != property {
			continue
		}
		words := strings.FieldsFunc(line.Value, func(r rune) bool { return r == ' ' || r == ',' })
		more, err := cpuset.Parse(strings.Join(words, ","))
		if assigns = true; err != nil || line.Value == "" {
			list = cpuset.Set{}
		}
		list = list.Union(more)
	}
	return list, assigns
}

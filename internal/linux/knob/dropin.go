package knob

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// The directories of the drop-ins that systemctl set-property writes, without and with --runtime.
const (
	persistent = "/etc/systemd/system.control"
	untilBoot  = "/run/systemd/system.control"
)

// DropIn returns a file that gives a unit another list of CPUs or memory nodes than the one that systemd was given
// until the next boot; "" if there is none. At each daemon-reload systemd reads the drop-ins of a unit in the order of
// their names, whichever directory they are in. Of several with one name it reads only the one in the first of its
// directories; an empty file or a link to /dev/null hides the others (systemd.unit(5)). The list until the next boot is
// in /run/systemd/system.control, in 50-PROPERTY.conf. The lists of several files add up, as those of one file do.
// DropIn ignores files for all units of a kind, files of generators, and files that cannot be read.
func DropIn(h *Host, unit, property, list string) string {
	given, _ := cpuset.Parse(list) // empty for an invalid one: every file is another list then
	own := "50-" + property + ".conf"
	files := map[string]string{} // by name
	for _, dir := range []string{persistent, untilBoot, "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"} {
		at := dir + "/" + unit + ".d/"
		for _, name := range h.names(at) {
			if path.Ext(name) == ".conf" && files[name] == "" {
				files[name] = at + name
			}
		}
	}
	if !strings.HasPrefix(files[own], persistent) {
		files[own] = untilBoot + "/" + unit + ".d/" + own
	}
	becomes, last := cpuset.Set{}, ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		its, assigns := assigned(h.Text(files[name]), property, becomes)
		switch {
		case strings.HasPrefix(files[name], untilBoot) && name == own:
			becomes, last = given, ""
		case assigns || name == own:
			becomes, last = its, files[name]
		}
	}
	if becomes == given {
		return ""
	}
	return last
}

// assigned returns what a drop-in makes of a list, and whether it assigns one. Lists of several lines add up, and an
// empty one begins again.
func assigned(text, property string, list cpuset.Set) (_ cpuset.Set, assigns bool) {
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

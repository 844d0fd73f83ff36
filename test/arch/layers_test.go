package arch

import (
	"fmt"
	"slices"
	"strings"
)

// layering says which rooms may import which: a room imports rooms of its own folder and of lower layers.
type layering struct {
	// layers are folders, from the top down.
	layers [][]string
	// apart is a folder whose own folders do not import each other.
	apart string
	// sideways maps the exceptions, as "from imports to", to their reasons.
	sideways map[string]string
}

// layers describes the folders of this module. ARCHITECTURE.md says what each has.
func layers() layering {
	return layering{
		layers: [][]string{
			{"cmd"},
			{"internal/cli"},
			{"internal/proof", "internal/scheduler"},
			{"internal/agent"},
			{"internal/capability"},
			{"internal/node"},
			{"internal/intent"},
			{"internal/engine", "internal/doctor"},
			{"internal/linux"},
			{"internal/value", "api", "deploy"},
		},
		apart: "internal/capability",
		sideways: map[string]string{
			"internal/capability/isolate/offline imports internal/capability/place": "it finds the groups of both sides that share a core in what place reports",
		},
	}
}

// of returns the layer and the folder of a room, -1 for a room in no layer.
func (l layering) of(dir string) (layer int, folder string) {
	layer = slices.IndexFunc(l.layers, func(folders []string) bool {
		i := slices.IndexFunc(folders, func(one string) bool { return below(dir, one) })
		if i >= 0 {
			folder = folders[i]
		}
		return i >= 0
	})
	return layer, folder
}

// part returns which folder of apart has a room, "" for others and for the room apart itself.
func (l layering) part(dir string) string {
	if l.apart == "" || !below(dir, l.apart) {
		return ""
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, l.apart), "/"), "/")
	return part
}

// checkLayers finds what a room imports from above, from beside, or from the test harness.
func checkLayers(p pkg, r rules) []string {
	layer, folder := r.of(p.dir)
	if layer < 0 {
		return []string{p.dir + ": is in no layer"}
	}
	var found []string
	for imported, files := range p.imports {
		dir, own := strings.CutPrefix(imported, r.module+"/")
		if !own {
			continue
		}
		to, other := r.of(dir)
		_, excepted := r.sideways[p.dir+" imports "+dir]
		switch {
		case r.inHarness(dir):
			found = append(found, fmt.Sprintf("%s: imports the test harness %s %v", p.dir, dir, files))
		case to < 0: // a finding of its own
		case other != folder && to <= layer:
			found = append(found, fmt.Sprintf("%s: imports %s: arrows point down only %v", p.dir, dir, files))
		case other == folder && !excepted && r.part(dir) != "" && r.part(dir) != r.part(p.dir):
			found = append(found, fmt.Sprintf("%s: imports %s sideways %v", p.dir, dir, files))
		}
	}
	return found
}

// checkLayering finds layers without rooms, and exceptions that no room needs.
func checkLayering(pkgs map[string]pkg, r rules) []string {
	used, needed := map[string]bool{}, map[string]bool{}
	for dir, p := range pkgs {
		_, folder := r.of(dir)
		used[folder] = true
		for imported := range p.imports {
			needed[dir+" imports "+strings.TrimPrefix(imported, r.module+"/")] = true
		}
	}
	var found []string
	for _, folder := range slices.Concat(r.layers...) {
		if !used[folder] {
			found = append(found, "the layers name "+folder+", which has no room")
		}
	}
	for arrow := range r.sideways {
		if !needed[arrow] {
			found = append(found, "the layers except what is not so: "+arrow)
		}
	}
	return found
}

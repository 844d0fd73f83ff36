package tuner

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/engine/driver"
)

// fired returns how often each interrupt in the settings has fired, by the file of its setting, as far as the host
// reports it.
func fired(tree fs.FS, all []Setting) map[string]uint64 {
	counts := map[string]uint64{}
	for _, s := range all {
		if !driver.IsInterrupt(s.Target) {
			continue
		}
		if n, known := came(tree, s.File); known {
			counts[s.File] = n
		}
	}
	return counts
}

// awaitsFire reports whether the interrupt of a file has not fired since it was given its CPUs.
func (a Applied) awaitsFire(tree fs.FS, file string) bool {
	before, counted := a.Fired[file]
	now, known := came(tree, file)
	return counted && known && now == before
}

// came returns how often the interrupt of a file like /proc/irq/25/smp_affinity_list has fired, on all CPUs together
// (Documentation/ABI/testing/sysfs-kernel-irq, per_cpu_count).
func came(tree fs.FS, file string) (n uint64, known bool) {
	text, err := fs.ReadFile(tree, "sys/kernel/irq/"+path.Base(path.Dir(file))+"/per_cpu_count")
	if err != nil {
		return 0, false
	}
	for one := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		count, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			return 0, false
		}
		n += count
	}
	return n, true
}

package tune_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// TestRoomAndOriginals checks that a pool of huge pages leaves memory to the host, and that an empty original cannot be
// restored.
func TestRoomAndOriginals(t *testing.T) {
	t.Parallel()
	const small = "MemTotal: 4194304 kB\nMemAvailable: 1048576 kB\nHugepagesize: 2048 kB\n"  // room: 512 MiB
	const large = "MemTotal: 41943040 kB\nMemAvailable: 3145728 kB\nHugepagesize: 2048 kB\n" // room: 1 GiB
	const full = "MemTotal: 4194304 kB\nMemAvailable: 204800 kB\nHugepagesize: 2048 kB\n"    // room: none
	for name, tt := range map[string]struct{ meminfo, key, now, want, why string }{
		"as much as fits":   {small, "vm.nr_hugepages", "10", "266", ""},
		"a page too many":   {small, "vm.nr_hugepages", "10", "267", "257 more pages of 2 MiB each, where the host has room for 256"},
		"by a policy":       {small, "vm.nr_hugepages_mempolicy", "0", "257", "room for 256"},
		"5 per cent":        {large, "vm.nr_hugepages", "0", "512", ""},
		"above 5 per cent":  {large, "vm.nr_hugepages", "0", "513", "room for 512"},
		"nothing left":      {full, "vm.nr_hugepages", "10", "11", "room for 0"},
		"shrinks":           {full, "vm.nr_hugepages", "10", "9", ""},
		"stays":             {full, "vm.nr_hugepages", "10", "10", ""},
		"a slip of a digit": {large, "vm.nr_hugepages", "0", "9223372036854775807", "room for 512"},
		"not known":         {"", "vm.nr_hugepages", "0", "513", ""},
		"no pool":           {full, "vm.swappiness", "1", "60", ""},
		"empty":             {"", "net.ipv4.ip_local_reserved_ports", "", "8080", "it is empty now"},
		"not empty":         {"", "net.ipv4.ip_local_reserved_ports", "80", "8080", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := sysctls(map[string]string{strings.ReplaceAll(tt.key, ".", "/"): tt.now})
			tree["proc/meminfo"] = &fstest.MapFile{Data: []byte(tt.meminfo), Mode: 0o444}
			k, _ := knob.Lookup(knob.Prefix + tt.key)
			value, err := k.Parse(tt.want)
			if err != nil {
				t.Fatal(err)
			}
			host := knob.Open(tree)
			bound := profile.Bound{Name: "test", Settings: []profile.Setting{{Knob: k, Value: value}}}
			d := tune.Make(bound, tune.Host{Survey: host.Survey([]string{k.Name}), Facts: host.Facts()}, nil).Divide()
			switch {
			case tt.why == "" && len(d.Write) != 1:
				t.Errorf("%+v", d)
			case tt.why != "" && (len(d.Blocked) != 1 || !strings.Contains(d.Blocked[0].Why, tt.why)):
				t.Errorf("%+v, want %q", d, tt.why)
			}
		})
	}
}

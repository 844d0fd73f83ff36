package tune_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/knob"
	"github.com/berth-project/berth/internal/profile"
	"github.com/berth-project/berth/internal/tune"
)

// TestCoupledSysctlsAreBlocked: what a write changes in other files, and what no undo puts back
// there, blocks a setting unless its value stands.
func TestCoupledSysctlsAreBlocked(t *testing.T) {
	tree := fstest.MapFS{}
	for file, text := range map[string]string{
		"vm/dirty_bytes": "0", "vm/dirty_ratio": "20", "vm/dirty_background_bytes": "4096", "vm/dirty_background_ratio": "0",
		"vm/overcommit_kbytes": "0", "vm/overcommit_ratio": "50", "vm/swappiness": "60",
		"net/ipv4/ip_forward": "0", "net/ipv4/conf/all/forwarding": "0", "net/ipv4/conf/all/rp_filter": "0",
		"net/ipv6/conf/all/disable_ipv6": "0",
	} {
		tree["proc/sys/"+file] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
	}
	for _, tt := range []struct{ key, value, why string }{
		{"vm.dirty_bytes", "1048576", "undo would lose vm.dirty_ratio=20"},
		{"vm.dirty_bytes", "0", ""},
		{"vm.dirty_ratio", "10", ""},
		{"vm/dirty_background_ratio", "5", "undo would lose vm.dirty_background_bytes=4096"},
		{"vm.overcommit_kbytes", "1024", "undo would lose vm.overcommit_ratio=50"},
		{"vm.overcommit_ratio", "80", ""},
		{"vm.swappiness", "1", ""},
		{"net.ipv4.ip_forward", "1", "undo would lose the interfaces' own values"},
		{"net.ipv4.conf.all.forwarding", "1", "undo would lose the interfaces' own values"},
		{"net.ipv4.conf.all.rp_filter", "1", ""},
		{"net.ipv6.conf.all.disable_ipv6", "1", "undo would lose the interfaces' own values"},
		{"net.ipv6.conf.all.disable_ipv6", "0", ""},
	} {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			k, known := knob.Lookup(knob.Prefix + tt.key)
			value, err := k.Parse(tt.value)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			survey := knob.Open(tree).Survey([]string{k.Name})
			bound := profile.Bound{Name: "test", Settings: []profile.Setting{{Knob: k, Value: value}}}
			d := tune.Make(bound, tune.Host{Survey: survey}, nil).Divide()
			switch {
			case tt.why == "" && len(d.Write) != 1:
				t.Errorf("%+v", d)
			case tt.why != "" && (len(d.Blocked) != 1 || !strings.Contains(d.Blocked[0].Why, tt.why)):
				t.Errorf("%+v", d)
			}
		})
	}
}

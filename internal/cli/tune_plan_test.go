package cli

import (
	"maps"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/linux/knob"
)

// TestReadBoot checks that a plan learns which CPUs the kernel made of an argument, and only of an argument in effect.
func TestReadBoot(t *testing.T) {
	tree := fstest.MapFS{
		"proc/cmdline":                     {Data: []byte("quiet nohz_full=0-3 isolcpus=2-3\n")},
		"sys/devices/system/cpu/nohz_full": {Data: []byte("1-3\n")},
		"sys/devices/system/cpu/isolated":  {Data: []byte("2-3\n")},
	}
	for _, c := range []struct {
		args []string
		want map[string]string
	}{
		{[]string{"nohz_full=0-3", "isolcpus=2-3"}, map[string]string{"nohz_full=0-3": "nohz_full=1-3"}},
		{[]string{"nohz_full=2-3", "rcu_nocbs=2-3"}, map[string]string{}},
	} {
		b, err := readBoot(tree, c.args, knob.Facts{})
		if err != nil || !maps.Equal(b.Made, c.want) {
			t.Errorf("%v: %v, %v, want %v", c.args, b.Made, err, c.want)
		}
	}
}

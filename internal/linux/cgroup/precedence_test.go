package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

const (
	mountsV1 = "30 22 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 22 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	mountsV2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
)

// treeV1 and treeV2 return hosts with one group of these files.
func treeV1(files map[string]string) map[string]string {
	all := map[string]string{"proc/self/mountinfo": mountsV1}
	for name, text := range files {
		all["sys/fs/cgroup/cpu/a/"+name] = text
	}
	return all
}

func treeV2(files map[string]string) map[string]string {
	all := map[string]string{
		"proc/self/mountinfo":                mountsV2,
		"sys/fs/cgroup/cgroup.controllers":   "cpuset cpu\n",
		"sys/fs/cgroup/a/cgroup.controllers": "cpuset cpu\n",
	}
	for name, text := range files {
		all["sys/fs/cgroup/a/"+name] = text
	}
	return all
}

func TestWeight(t *testing.T) {
	for v, want := range map[cgroup.Value]struct {
		n       uint64
		version int
	}{
		cgroup.Idle: {}, "weight 1": {1, 2}, "weight 10000": {10_000, 2}, "shares 2": {2, 1}, "shares 1024": {1024, 1}, "shares 0": {0, 1},
	} {
		if n, version, err := v.Weight(); n != want.n || version != want.version || err != nil {
			t.Errorf("%q: %d, %d, %v", v, n, version, err)
		}
	}
	for _, v := range []cgroup.Value{
		"", "Idle", "idle ", "weight", "weight ", "weight 0", "weight 10001", "weight 01", "weight -1", "weight 1 2", "shares", "shares +2", "nice 3", "2",
		"shares 18446744073709551616",
	} {
		if _, _, err := v.Weight(); !errors.Is(err, cgroup.ErrMalformed) {
			t.Errorf("%q: %v", v, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		if got, version, err := cgroup.SharesValue(n).Weight(); got != n || version != 1 || err != nil {
			t.Fatalf("%d, %d, %v", got, version, err)
		}
	})
}

func TestSamePrecedence(t *testing.T) {
	for _, c := range []struct {
		a, b cgroup.Value
		want bool
	}{
		{cgroup.Idle, cgroup.Idle, true},
		{cgroup.Idle, "weight 1", false},
		{"weight 100", "weight 100", true},
		{"weight 100", "shares 100", false},
		{"shares 1", "shares 2", true}, // the kernel raises it to its minimum
		{"shares 262144", "shares 900000", true},
		{"shares 2", "shares 3", false},
		{"shares x", "shares 2", false},
	} {
		if cgroup.Same(cgroup.KnobPrecedence, c.a, c.b) != c.want || cgroup.Same(cgroup.KnobPrecedence, c.b, c.a) != c.want {
			t.Errorf("Same(%q, %q) is not %v", c.a, c.b, c.want)
		}
	}
	if !cgroup.LeftByIdle(cgroup.DefaultWeight) || !cgroup.LeftByIdle("shares 1024") || cgroup.LeftByIdle("shares 1023") || cgroup.LeftByIdle(cgroup.Idle) {
		t.Error("what idle leaves is the default weight")
	}
}

// TestPrecedence checks from which file a precedence is read, and which write comes next.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name          string
		tree          map[string]string
		value, stands cgroup.Value
		write         string
		err, readErr  error
	}{
		{"v1 to idle", treeV1(map[string]string{"cpu.shares": "512\n", "cpu.idle": "0\n"}), cgroup.Idle, "shares 512", "cpu.idle=1", nil, nil},
		{"v1 from idle", treeV1(map[string]string{"cpu.shares": "3\n", "cpu.idle": "1\n"}), "shares 512", cgroup.Idle, "cpu.idle=0", nil, nil},
		{"v1 weight", treeV1(map[string]string{"cpu.shares": "1024\n", "cpu.idle": "0\n"}), "shares 512", "shares 1024", "cpu.shares=512", nil, nil},
		{"v1 before 5.15", treeV1(map[string]string{"cpu.shares": "512\n"}), "shares 2", "shares 512", "cpu.shares=2", nil, nil},
		{"v1 and a weight of v2", treeV1(map[string]string{"cpu.shares": "512\n"}), "weight 2", "shares 512", "=", cgroup.ErrMalformed, nil},
		{"v2 to idle", treeV2(map[string]string{"cpu.weight": "79\n", "cpu.idle": "0\n"}), cgroup.Idle, "weight 79", "cpu.idle=1", nil, nil},
		{"v2 from idle", treeV2(map[string]string{"cpu.weight": "0\n", "cpu.idle": "1\n"}), "weight 79", cgroup.Idle, "cpu.idle=0", nil, nil},
		{"v2 weight", treeV2(map[string]string{"cpu.weight": "100\n", "cpu.idle": "0\n"}), "weight 79", "weight 100", "cpu.weight=79", nil, nil},
		{"v2 and shares of v1", treeV2(map[string]string{"cpu.weight": "100\n"}), "shares 79", "weight 100", "=", cgroup.ErrMalformed, nil},
		{"no value", treeV2(map[string]string{"cpu.weight": "100\n"}), "often", "weight 100", "=", cgroup.ErrMalformed, nil},
		{"no file", treeV2(nil), "weight 5", "", "=", cgroup.ErrNoKnob, cgroup.ErrNoKnob},
	} {
		g, err := written(t, c.tree).Group("a")
		if err != nil {
			t.Fatal(err)
		}
		if stands, err := g.Read(cgroup.KnobPrecedence); stands != c.stands || !errors.Is(err, c.readErr) {
			t.Errorf("%s: stands at %q, %v", c.name, stands, err)
		}
		_, file, content, err := g.Encode(cgroup.KnobPrecedence, c.value)
		if got := file + "=" + content; got != c.write || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v, want %s, %v", c.name, got, err, c.write, c.err)
		}
		_ = g.Close()
	}
}

// TestIdentity checks Group Identity on invented files only, because no kernel that Berth is tested on has it.
func TestIdentity(t *testing.T) {
	g, err := written(t, treeV1(map[string]string{"cpu.shares": "512\n", "cpu.bvt_warp_ns": "-1\n"})).Group("a")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if v, err := g.Read(cgroup.KnobIdentity); v != "-1" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if _, file, content, err := g.Encode(cgroup.KnobIdentity, "2"); file != "cpu.bvt_warp_ns" || content != "2" || err != nil {
		t.Errorf("%q to %q: %v", content, file, err)
	}
	for _, v := range []cgroup.Value{"", "x", "+1", " 1", "01", "-0"} {
		if _, _, _, err := g.Encode(cgroup.KnobIdentity, v); !errors.Is(err, cgroup.ErrMalformed) {
			t.Errorf("%q: %v", v, err)
		}
	}
	without, err := written(t, treeV1(map[string]string{"cpu.shares": "512\n"})).Group("a")
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if v, err := without.Read(cgroup.KnobIdentity); !errors.Is(err, cgroup.ErrNoKnob) {
		t.Errorf("a mainline kernel: %q, %v", v, err)
	}
}

func TestProbe(t *testing.T) {
	has := treeV1(map[string]string{"cpu.shares": "2\n", "cpu.idle": "0\n", "cpu.bvt_warp_ns": "0\n"})
	lacks := treeV2(map[string]string{"cpu.weight": "100\n"})
	empty := treeV2(nil)
	for _, c := range []struct {
		name             string
		tree             map[string]string
		idle, identities kernel.Support
	}{
		{"both", has, kernel.Supported, kernel.Supported},
		{"neither", lacks, kernel.Unsupported, kernel.Unsupported},
		{"no group with the controller", empty, kernel.Unknown, kernel.Unknown},
	} {
		host := written(t, c.tree)
		for k, want := range map[cgroup.Knob]kernel.Support{
			cgroup.KnobPrecedence: c.idle, cgroup.KnobIdentity: c.identities, cgroup.KnobMax: kernel.Unknown,
		} {
			if got, err := host.Probe(k); got != want || err != nil {
				t.Errorf("%s: %s is %s, %v, want %s", c.name, k, got, err, want)
			}
		}
	}
	host := written(t, map[string]string{"proc/self/mountinfo": mountsV1})
	if got, err := host.Probe(cgroup.KnobPrecedence); got != kernel.Unknown || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a hierarchy that cannot be read: %s, %v", got, err)
	}
	host = written(t, map[string]string{"proc/self/mountinfo": "31 22 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"})
	if got, err := host.Probe(cgroup.KnobPrecedence); got != kernel.Unknown || !errors.Is(err, cgroup.ErrNoHierarchy) {
		t.Errorf("no hierarchy: %s, %v", got, err)
	}
}

func FuzzWeight(f *testing.F) {
	for _, seed := range []string{"idle", "weight 100", "shares 2", "weight 0", "shares 18446744073709551615", "weight  1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, version, err := cgroup.Value(text).Weight()
		if err != nil {
			return
		}
		want := map[int]string{0: "idle", 1: fmt.Sprintf("shares %d", n), 2: fmt.Sprintf("weight %d", n)}[version]
		if text != want {
			t.Fatalf("%q means %q", text, want)
		}
	})
}

package cgroup

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/value/unit"
)

func TestPair(t *testing.T) {
	for value, want := range map[Value]struct{ n, period unit.Micros }{
		"max 100000":            {-1, 100_000},
		"50000 100000":          {50_000, 100_000},
		"0 1":                   {0, 1},
		"9223372036854775807 1": {1<<63 - 1, 1},
	} {
		n, period, err := value.Pair()
		if err != nil || n != want.n || period != want.period {
			t.Errorf("%q: %d, %d, %v", value, n, period, err)
		}
		if again := MaxValue(n, period); again != value {
			t.Errorf("%q became %q", value, again)
		}
	}
	for _, value := range []Value{
		"", "max", "1", "1 ", " 1", "1 2 3", "1  2", "-1 2", "1 -2", "+1 2", "01 2", "1 0", "1 max", "x 2", "1 2\n",
		"9223372036854775808 1", "1.5 2", "Max 2", "1\t2",
	} {
		if _, _, err := value.Pair(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		knob Knob
		a, b Value
		want bool
	}{
		{KnobMax, "10000 5000", "10000 5000", true},
		{KnobMax, "10000 5000", "20000 10000", true},
		{KnobMax, "10000 5000", "640000 320000", true},
		{KnobMax, "10000 5000", "30000 15000", false}, // the same ratio, but not the kernel's doing
		{KnobMax, "10000 5000", "20001 10000", false},
		{KnobMax, "10000 5000", "20000 5000", false},
		{KnobMax, "10000 5000", "10000 10000", false},
		{KnobMax, "5 3", "5 6", false},
		{KnobMax, "max 5000", "max 10000", true},
		{KnobMax, "max 5000", "10000 10000", false},
		{KnobMax, "max 5000", "max 5001", false},
		{KnobBurst, "0 5000", "0 10000", true},
		{KnobBurst, "100 5000", "200 10000", true},
		{KnobBurst, "100 5000", "100 10000", false},
		{KnobMax, "x", "x", true},
		{KnobMax, "x", "1 2", false},
		{"other", "1 2", "2 4", false},
		{KnobMax, "9223372036854775807 1", "9223372036854775807 2", false},
	} {
		if got := Same(c.knob, c.a, c.b); got != c.want {
			t.Errorf("Same(%s, %q, %q) = %v", c.knob, c.a, c.b, got)
		}
		if got := Same(c.knob, c.b, c.a); got != c.want {
			t.Errorf("Same(%s, %q, %q) = %v", c.knob, c.b, c.a, got)
		}
	}
}

func TestScaleTo(t *testing.T) {
	for _, c := range []struct {
		value  Value
		period unit.Micros
		want   Value
	}{
		{"10000 5000", 20_000, "40000 20000"},
		{"40000 20000", 5000, "10000 5000"},
		{"40001 20000", 10_000, "40001 20000"},
		{"40000 20000", 30_000, "40000 20000"},
		{"max 20000", 40_000, "max 40000"},
		{"0 20000", 10_000, "0 10000"},
		{"10000 5000", 0, "10000 5000"},
		{"x", 5000, "x"},
	} {
		if got := ScaleTo(c.value, c.period); got != c.want {
			t.Errorf("ScaleTo(%q, %d) = %q, want %q", c.value, c.period, got, c.want)
		}
	}
}

// TestDoublingIsTheSame checks Same for every value that the kernel can have and every number of doublings of period
// and quota.
func TestDoublingIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := rapid.Int64Range(-1, 1<<40).Draw(t, "quota")
		period := rapid.Int64Range(1000, 1_000_000).Draw(t, "period")
		doublings := rapid.IntRange(0, 10).Draw(t, "doublings")
		before := MaxValue(unit.Micros(quota), unit.Micros(period))
		scaled := quota
		if quota > 0 {
			scaled <<= doublings
		}
		after := MaxValue(unit.Micros(scaled), unit.Micros(period<<doublings))
		if !Same(KnobMax, before, after) || !Same(KnobMax, after, before) {
			t.Fatalf("%q and %q differ", before, after)
		}
		if got := ScaleTo(before, unit.Micros(period<<doublings)); got != after {
			t.Fatalf("ScaleTo = %q, want %q", got, after)
		}
		if got := ScaleTo(after, unit.Micros(period)); got != before {
			t.Fatalf("ScaleTo back = %q, want %q", got, before)
		}
		if drift := MaxValue(unit.Micros(max(scaled, 0)+1), unit.Micros(period<<doublings)); Same(KnobMax, before, drift) {
			t.Fatalf("%q and %q are the same", before, drift)
		}
	})
}

func FuzzPair(f *testing.F) {
	for _, seed := range []string{"max 100000", "50000 100000", "0 1", "-1 5", "1 2 3", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, period, err := Value(text).Pair()
		if err != nil {
			return
		}
		if n < unit.NoLimit || period < 1 {
			t.Errorf("%q: %d every %d", text, n, period)
		}
		if got := MaxValue(n, period); string(got) != text {
			t.Errorf("%q is not canonical: %q", text, got)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("usage_usec 1\nnr_periods 2\nnr_throttled 1\nthrottled_usec 3\n"))
	f.Add([]byte("nr_periods 2\nnr_throttled 1\nthrottled_time 18446744073709551615"))
	f.Add([]byte("usage_usec 18446744073709551616"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := parseStat(data)
		if s.usage < 0 || s.Time < 0 || s.BurstTime < 0 {
			t.Errorf("negative: %+v", s)
		}
		if !ok && s != (stat{}) {
			t.Errorf("refused, and yet %+v", s)
		}
	})
}

func FuzzMemoryByNode(f *testing.F) {
	f.Add([]byte("anon=374 N0=374\nhierarchical_file=1462444 N0=1462444 N1=0\nhierarchical_anon=681027 N0=681027\nhierarchical_unevictable=4839 N0=4839 \n"))
	f.Add([]byte("anon N0=1000000 N1=20480\nfile N0=3000000 N1=8192\nshmem N0=500000 N1=12288\n"))
	f.Add([]byte("total=0 N0=0 N1=0\nhierarchical_total=1073741824 N0=1073741824 N1=0"))
	f.Add([]byte("anon N0=72057594037927936 N1023=1\nanon N0=72057594037927936"))
	f.Add([]byte("anon  N0"))
	f.Add([]byte("total=1 =1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, add := range []func(b *MemoryByNode) bool{
			func(b *MemoryByNode) bool { return b.addV1(data, 65536) },
			func(b *MemoryByNode) bool { return b.addV2(data) },
			func(b *MemoryByNode) bool { return b.addPool(data) },
		} {
			var b MemoryByNode
			add(&b)
			if len(b.Movable) > maxNode || len(b.File) > maxNode {
				t.Errorf("%d nodes, %d of file pages", len(b.Movable), len(b.File))
			}
			for _, n := range append(slices.Clone(b.Movable), b.File...) {
				if n > maxBytes || n < -maxBytes {
					t.Errorf("%d bytes", n)
				}
			}
			if slices.ContainsFunc(b.Movable, func(n int64) bool { return n < 0 }) {
				t.Errorf("negative: %v", b.Movable)
			}
		}
	})
}

func FuzzMemberships(f *testing.F) {
	f.Add("4:cpu,cpuacct:/a:b/c\n0::/x (deleted)\n")
	f.Add("::/\n")
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseMemberships(text)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		for _, m := range list {
			if m.path == "" || m.path[0] != '/' {
				t.Errorf("path %q", m.path)
			}
		}
	})
}

func FuzzPIDs(f *testing.F) {
	f.Add("1\n2\n0\n")
	f.Add("-1")
	f.Add("99999999999")
	f.Fuzz(func(t *testing.T, text string) {
		pids, zeros, err := parsePIDs(text)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		for _, pid := range pids {
			if pid <= 0 {
				t.Errorf("id %d", pid)
			}
		}
		if zeros < 0 {
			t.Errorf("%d zeros", zeros)
		}
	})
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"", "a/b", "../x", "/a", "a//b", "a/..", "..a", "a..", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if CheckPath(path) != nil {
			return
		}
		for _, up := range ancestors(path) {
			if err := CheckPath(up); err != nil || up == "" {
				t.Errorf("%q is fine, %q above it is not: %v", path, up, err)
			}
		}
	})
}

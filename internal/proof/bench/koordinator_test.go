package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/value/unit"
)

func TestEmulation(t *testing.T) {
	const y, n = true, false
	for name, c := range map[string]struct {
		throttled []bool
		want      []unit.Micros
		writes    int
	}{
		"never throttled, never raised": {[]bool{n, n, n}, []unit.Micros{50000, 50000, 50000}, 0},
		"seven steps to the cap": {
			[]bool{y, y, y, y, y, y, y, y},
			[]unit.Micros{60000, 72000, 86400, 103680, 124416, 149299, 150000, 150000},
			7,
		},
		"no decay": {[]bool{y, n, n, n, y}, []unit.Micros{60000, 60000, 60000, 60000, 72000}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEmulation(50000)
			var got []unit.Micros
			writes := 0
			for _, throttled := range c.throttled {
				quota, write := e.Tick(throttled)
				got = append(got, quota)
				if write {
					writes++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || writes != c.writes {
				t.Errorf("%d writes, want %d; quotas (-want +got):\n%s", writes, c.writes, diff)
			}
		})
	}
}

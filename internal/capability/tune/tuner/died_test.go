package tuner_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
)

// TestHostDiesAtEachBoot: after a boot in which the host died, a committed profile is applied once more, but not a
// third time. A user can still apply it.
func TestHostDiesAtEachBoot(t *testing.T) {
	h := newHost(t)
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(0, some()))
		must(t, err)
	})
	o := order(0, some())
	o.Again = true
	boot := func(n int) {
		for file, text := range before {
			h.write(file, text)
		}
		h.boot = fmt.Sprint("boot ", n)
	}
	dies := func(n int) {
		boot(n)
		if !h.command(4, func(u *tuner.Tuner) { _, _ = u.Apply(o) }) {
			t.Fatalf("boot %d lives", n)
		}
	}
	again := func(n int, want error) {
		boot(n)
		h.do(func(u *tuner.Tuner) {
			if r, err := u.Apply(o); !errors.Is(err, want) || want != nil && r.Writes > 0 {
				t.Errorf("boot %d: %+v, %v, want %v", n, r, err, want)
			}
		})
	}
	dies(1)
	again(2, nil) // a complete apply resets the count
	dies(3)
	dies(4)
	again(5, tuner.ErrDied)
	again(6, tuner.ErrDied)
	boot(7)
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(order(0, some()))
		must(t, err)
	})
	dies(8)
	again(9, nil)
}

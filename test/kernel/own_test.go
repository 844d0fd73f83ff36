package kernel

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestTicking checks that another number of ticks per second changes nothing else. With the default number the cached
// kernel must stay the one of kernel.config.
func TestTicking(t *testing.T) {
	t.Parallel()
	same, err := ticking(fragment, defaultHZ)
	if err != nil || !bytes.Equal(same, fragment) {
		t.Errorf("at the default: %v, another configuration", err)
	}
	got, err := ticking(fragment, 1000)
	if err != nil {
		t.Fatal(err)
	}
	want := wanted(fragment)
	want["CONFIG_HZ_250"], want["CONFIG_HZ_1000"] = "# CONFIG_HZ_250 is not set\n", "CONFIG_HZ_1000=y\n"
	have := wanted(got)
	for option, line := range want {
		if have[option] != line {
			t.Errorf("%s: %q, want %q", option, have[option], line)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d options, want %d", len(have), len(want))
	}
}

func TestTickingRefuses(t *testing.T) {
	t.Parallel()
	for _, hz := range []int{0, -250, 251, 10000} {
		if _, err := ticking(fragment, hz); !errors.Is(err, errHZ) {
			t.Errorf("%d: %v", hz, err)
		}
	}
	none := bytes.Join(slices.DeleteFunc(bytes.SplitAfter(fragment, []byte("\n")), func(line []byte) bool { return bytes.HasPrefix(line, []byte("CONFIG_HZ")) }), nil)
	if _, err := ticking(none, 1000); !errors.Is(err, errHZ) {
		t.Errorf("without an option to replace: %v", err)
	}
}

package coresched

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParse checks that Parse reads what String returns, and refuses any other text.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []Cookie{1, 0xabcdef01, 1 << 63} {
		if got, err := Parse(c.String()); got != c || err != nil {
			t.Errorf("%s: %s, %v", c, got, err)
		}
	}
	for _, text := range []string{"", "0", "00ff", "-1", "0x1f", "FF", "10000000000000000", "1 "} {
		if got, err := Parse(text); !errors.Is(err, ErrNotACookie) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// TestClassify checks the meaning of the kernel's errors.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ err, want error }{
		{unix.ESRCH, ErrGone}, {unix.EPERM, ErrNotPermitted}, {unix.ENODEV, unix.ENODEV}, {nil, nil},
	} {
		if got := Classify(test.err); !errors.Is(got, test.want) || errors.Is(got, ErrGone) != errors.Is(test.err, unix.ESRCH) {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

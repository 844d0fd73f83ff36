package kernel

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestCoreScheduling checks the meaning of each answer of the kernel to the probe.
func TestCoreScheduling(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		want   Support
		reason string
	}{
		{unix.EFAULT, Supported, ""},
		{nil, Supported, ""},
		{unix.EINVAL, Unsupported, "not built in"},
		{unix.ENODEV, Unsupported, "no SMT"},
		{unix.EPERM, Unknown, "not permitted"},
		{unix.ENOSYS, Unknown, unix.ENOSYS.Error()},
	} {
		if got, reason := coreScheduling(test.err); got != test.want || reason != test.reason {
			t.Errorf("%v: %s %q, want %s %q", test.err, got, reason, test.want, test.reason)
		}
	}
	got, reason := CoreScheduling()
	t.Logf("this kernel: %s %q", got, reason)
	if got == Supported != (reason == "") {
		t.Errorf("%s %q", got, reason)
	}
}

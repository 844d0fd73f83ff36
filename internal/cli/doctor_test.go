package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
)

// TestDoctorIsInterrupted: an interrupt ends the wait for the second sample.
func TestDoctorIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	time.AfterFunc(300*time.Millisecond, stop)
	begin := time.Now()
	code := cli.Run(ctx, []string{"doctor", "--interval", "10m"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, "test")
	if code == 0 || out.Len() > 0 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit %d after %v, %q, %q", code, time.Since(begin), out.String(), errs.String())
	}
}

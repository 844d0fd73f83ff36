package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindPrograms(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, file := range []string{a + "/etcd", a + "/kube-apiserver", a + "/benchschedule", b + "/etcd", b + "/berth-scheduler"} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := FindPrograms(a, b)
	if err != nil || p.Etcd != a+"/etcd" || p.Scheduler != b+"/berth-scheduler" || p.Measure != a+"/benchschedule" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := FindPrograms(a); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "berth-scheduler") {
		t.Errorf("got %v, want the missing one", err)
	}
	t.Chdir(filepath.Dir(a))
	if p, err := FindPrograms(filepath.Base(a), b); err != nil || p.Etcd != a+"/etcd" {
		t.Errorf("a relative directory: %+v, %v, want what another directory finds", p, err)
	}
}

// schedule runs a shell script instead of benchschedule.
func schedule(ctx context.Context, t *testing.T, o ScheduleOptions, script string) (*ScheduleReport, error) {
	t.Helper()
	o.Programs.Measure = filepath.Join(t.TempDir(), "benchschedule")
	if err := os.WriteFile(o.Programs.Measure, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return RunSchedule(ctx, o)
}

// TestScheduleReport: benchschedule receives the options, and its progress and report are returned unchanged.
func TestScheduleReport(t *testing.T) {
	var progress []string
	r, err := schedule(t.Context(), t, ScheduleOptions{Pods: 77, Options: Options{Progress: func(s string) { progress = append(progress, s) }}},
		`grep -q '"Pods":77' || exit 1
echo '{"progress":"one"}'
echo '{"progress":"two"}'
cat <<'END'
{"report":{"b":1.50,"a":"x"},"table":"A  B\n1  2\n"}
END
`)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	encoded, err := json.Marshal(r)
	if err := errors.Join(err, WriteScheduleTable(&table, r)); err != nil {
		t.Fatal(err)
	}
	if string(encoded) != `{"b":1.50,"a":"x"}` || table.String() != "A  B\n1  2\n" {
		t.Errorf("got %s\n%s", encoded, &table)
	}
	if diff := cmp.Diff([]string{"one", "two"}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// TestScheduleInterrupted: an interrupt asks benchschedule to end, and it reports what it has.
func TestScheduleInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, err := schedule(ctx, t, ScheduleOptions{Options: Options{Progress: func(string) { interrupt() }}},
		`trap 'echo "{\"report\":{},\"error\":\"ended early\"}"; exit 1' TERM
echo '{"progress":"running"}'
while :; do sleep 0.1; done
`)
	if r == nil || !errors.Is(err, context.Canceled) || !errors.Is(err, ErrChild) {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestScheduleFailed(t *testing.T) {
	for _, test := range []struct {
		name, script, says string
		class              error
	}{
		{"an error", `echo '{"error":"arm x: no"}'; exit 1`, "arm x: no", ErrChild},
		{"no permission", `echo '{"error":"out: denied","denied":true}'; exit 1`, "out: denied", fs.ErrPermission},
		{"no message", `echo oops >&2; exit 3`, "child process failed: benchschedule: exit status 3: oops\n", ErrChild},
		{"nothing", ``, "child process failed: benchschedule said nothing: (no message)", ErrChild},
		{"no JSON", `echo hello`, `child process failed: benchschedule: message "hello": invalid character 'h' looking for beginning of value: (no message)`, ErrChild},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := schedule(t.Context(), t, ScheduleOptions{}, test.script)
			if r != nil || !errors.Is(err, test.class) || err.Error() != test.says {
				t.Errorf("got %v, %q, want %q", r, err, test.says)
			}
		})
	}
}

package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadFindsEachJob(t *testing.T) {
	port := "guest: no debugfs\r\n" +
		Begin("a") + "=== RUN   TestA\r\n--- PASS: TestA\n" + End("a", 0, 2*time.Second) +
		Begin("b") + "no machine\n" + End("b", 3, 0) + Content("b", []byte("x\x00y")) +
		Begin("c") + "half a li"
	got, rest, err := Read(strings.NewReader(port))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Result{
		"a": {Output: "=== RUN   TestA\n--- PASS: TestA\n", Ended: true, Took: 2 * time.Second},
		"b": {Output: "no machine\n", Ended: true, Code: 3, File: []byte("x\x00y")},
		"c": {Output: "half a li"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if rest != "guest: no debugfs\n" {
		t.Errorf("rest = %q", rest)
	}
}

func TestReadReportsDamage(t *testing.T) {
	for _, line := range []string{mark + "end a", mark + "end a x", mark + "file a %%"} {
		if _, _, err := Read(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("Read(%q) found nothing wrong", line)
		}
	}
}

func TestStrideIsOneUnlessTheCommandLineSays(t *testing.T) {
	for line, want := range map[string]int{
		"root=/dev/vda\n": 1, "rdinit=/init berth.stride=7\n": 7, "berth.stride=1": 1,
		"berth.stride=0": 0, "berth.stride=many": 0,
	} {
		got, err := stride(line)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("stride(%q) = %d, %v, want %d", line, got, err, want)
		}
	}
}

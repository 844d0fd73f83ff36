package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/cli"
)

// newTerminal opens a pseudo terminal. Its function closes the terminal and returns the shown text, which must fit the
// kernel's buffer of a page.
func newTerminal(t *testing.T) (terminal *os.File, shown func() string) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("%v; `make test` runs it where pseudo terminals are", err)
	}
	t.Cleanup(func() { _ = controller.Close() })
	number, err := unix.IoctlGetInt(int(controller.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(controller.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal, func() string {
		_ = terminal.Close()
		text, _ := io.ReadAll(controller) // ends with EIO: the terminal is closed
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
}

// TestSimulateShowsProgress checks that a long simulation shows its progress on a terminal at standard error only. The
// report is the same without a terminal.
func TestSimulateShowsProgress(t *testing.T) {
	pods := filepath.Join(t.TempDir(), "pods.yaml")
	const many = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2500\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: main, image: web, resources: {requests: {cpu: 10m}}}]}\n"
	if err := os.WriteFile(pods, []byte(many), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "-f", machinesDir + "one-socket-6c.txtar", "-f", pods, "-o", "json"}
	code, want, errs := berthRun(t, args...)
	if code != 1 || !json.Valid([]byte(want)) || strings.Contains(errs, "decided") {
		t.Fatalf("without a terminal: exit code %d, %.200s%s", code, want, errs)
	}
	terminal, shown := newTerminal(t)
	var out bytes.Buffer
	code = cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: terminal}, "test")
	if code != 1 || out.String() != want {
		t.Errorf("at a terminal: exit code %d, the report is the same: %t", code, out.String() == want)
	}
	lines := regexp.MustCompile(`(?m)^ *\d+s  decided (\d+) of 2500 pods$`).FindAllStringSubmatch(shown(), -1)
	if len(lines) != 3 || lines[0][1] != "0" || lines[1][1] != "1000" || lines[2][1] != "2000" {
		t.Errorf("progress: %q", lines)
	}
}

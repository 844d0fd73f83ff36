package cluster

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/test/flags"
)

// shippedRules are the rules by which `make dist` builds, as the files of the source tree write them.
type shippedRules struct {
	makefile, dist, modules string
}

func readRules(t *testing.T) (r shippedRules) {
	t.Helper()
	for name, text := range map[string]*string{
		"Makefile": &r.makefile, "tools/dist.sh": &r.dist, "cmd/berth-scheduler/go.mod": &r.modules,
	} {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		must(t, err)
		*text = string(content)
	}
	return r
}

// part returns what the only group of a pattern matches in a text.
func part(t *testing.T, text, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	return match[1]
}

// linking returns the linker's flags of a shipped program.
func (r shippedRules) linking(t *testing.T, program string, of Release) string {
	t.Helper()
	flags := strings.NewReplacer("$(VERSION)", of.Version, "$(COMMIT)", of.Commit).Replace(part(t, r.makefile, `(?m)^LDFLAGS\s*=\s*(.+)$`))
	if program == "berth-scheduler" {
		more := part(t, r.dist, `cmd/berth-scheduler build -ldflags "\$ldflags ([^"]+)"`)
		flags += " " + strings.ReplaceAll(more, "$kubernetes", part(t, r.modules, `(?m)^\s*k8s\.io/kubernetes (\S+)`))
	}
	return flags
}

// TestBuildsAsShipped compares the flags of the linker, and the questions to git, with the Makefile and tools/dist.sh:
// the cluster runs the programs that `make dist` ships.
func TestBuildsAsShipped(t *testing.T) {
	rules, of := readRules(t), Release{Version: "v1.2.3-4-gabc", Commit: "abc"}
	for _, name := range []string{"berth", "berth-scheduler"} {
		got, err := program{name: name, own: true}.linking(of)
		must(t, err)
		if diff := cmp.Diff(rules.linking(t, name, of), got); diff != "" {
			t.Errorf("flags of the linker for %s (-shipped +here):\n%s", name, diff)
		}
	}
	for question, text := range map[string]string{askVersion: rules.makefile, askCommit: rules.makefile, askDate: rules.dist} {
		if !strings.Contains(text, question) {
			t.Errorf("no rule has %q", question)
		}
	}
}

// TestSameProgram builds berth as `make dist` and as the cluster do. Each byte must be the same.
func TestSameProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("links berth twice")
	}
	rules, of := readRules(t), Release{Version: "v1.2.3", Commit: "abc"}
	tree, err := filepath.Abs(root)
	must(t, err)
	compiling, err := flags.Compiling(tree)
	must(t, err)
	dir := t.TempDir()
	shipped, here := filepath.Join(dir, "shipped"), filepath.Join(dir, "here", "berth")
	must(t, os.Mkdir(filepath.Dir(here), 0o755))
	must(t, program{name: "berth", pkg: "./cmd/berth", dir: tree, path: here, own: true}.build(t.Context(), t.Output(), of))

	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", rules.linking(t, "berth", of), "-o", shipped, "./cmd/berth")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.Join(compiling, " "), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, said)
	}
	want, err := os.ReadFile(shipped)
	must(t, err)
	got, err := os.ReadFile(here)
	must(t, err)
	if !bytes.Equal(want, got) {
		t.Errorf("the program of the cluster has %d bytes and differs from the shipped program, which has %d", len(got), len(want))
	}
}

// TestCurrentRelease checks that the environment takes precedence over git, as in the Makefile.
func TestCurrentRelease(t *testing.T) {
	t.Setenv("VERSION", "of-the-environment")
	t.Setenv("COMMIT", "abc")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	want := Release{Version: "of-the-environment", Commit: "abc", Seconds: 1_700_000_000}
	got, err := currentRelease(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
	t.Setenv("VERSION", "")
	if got, err = currentRelease(t.Context()); err != nil || got.Version == "" || got.Version == want.Version {
		t.Errorf("without VERSION: %+v, %v", got, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := currentRelease(t.Context()); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("a date that is no number: %v", err)
	}
}

// TestReleaseFile reads what a build wrote. Without the file the programs count as missing.
func TestReleaseFile(t *testing.T) {
	berth := filepath.Join(t.TempDir(), "berth")
	if _, err := readRelease(berth); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("without a file: %v", err)
	}
	want := Release{Version: "v1.2.3", Commit: "abc", Seconds: 1_700_000_000}
	must(t, want.write(berth))
	got, err := readRelease(berth)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
	must(t, os.WriteFile(releaseFile(berth), []byte("{"), 0o600))
	if _, err := readRelease(berth); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("a damaged file: %v", err)
	}
}

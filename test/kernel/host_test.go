package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsCompareAsNumbers(t *testing.T) {
	sorted := []string{"linux-source-5.10", "linux-source-6.1", "linux-source-6.9", "linux-source-6.12"}
	if !slices.IsSortedFunc(sorted, compareVersions) {
		t.Errorf("not in order: %v", sorted)
	}
	for name, want := range map[string]string{
		"linux-image-6.1.0-57-cloud-amd64": "6.1",
		"linux-source-6.12":                "6.12",
		"linux-source-6.8.0":               "6.8",
	} {
		if got := series(name); got != want {
			t.Errorf("series(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistancesKnowTheSocket(t *testing.T) {
	m := Machine{Sockets: 2, Dies: 2, Cores: 1, Threads: 2, Nodes: 4, MiB: 1024}
	args := strings.Join(m.Arguments(), " ")
	for _, want := range []string{
		"8,sockets=2,dies=2,cores=1,threads=2", "nodeid=3,cpus=6-7", "size=256M",
		"src=1,dst=1,val=10", "src=0,dst=1,val=12", "src=1,dst=2,val=21",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("%s is missing in %s", want, args)
		}
	}
}

func TestFindTakesLiveFilesOnly(t *testing.T) {
	source := t.TempDir()
	for name, text := range map[string]string{
		"internal/a/live_test.go":          "package a\nfunc TestA(t *T) {}\nfunc TestMain(m *M) {}\nfunc helper() {}\n",
		"internal/a/b_live_test.go":        "package a\nfunc TestB(t *T) {}\n",
		"internal/a/a_test.go":             "package a\nfunc TestPure(t *T) {}\n",
		"internal/a/testdata/live_test.go": "not Go",
		"test/other/go.mod":                "module other\n",
		"test/other/live_test.go":          "package other\nfunc TestC(t *T) {}\n",
		".hidden/live_test.go":             "not Go",
	} {
		file := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Find(source)
	if err != nil {
		t.Fatal(err)
	}
	want := []Cases{{Package: "internal/a", Tests: []string{"TestB", "TestA"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

// TestOptionsNameAKernel checks that the cache key depends only on what is built. A comment or another order must not
// cause a new build, and the last line about an option takes effect.
func TestOptionsNameAKernel(t *testing.T) {
	one := options([]byte("# why\nCONFIG_B=y\n# CONFIG_C is not set\n# CONFIG_A is not set\nCONFIG_A=y\n"))
	same := options([]byte("CONFIG_A=y\nCONFIG_B=y\n\n# another reason\n# CONFIG_C is not set\n"))
	if diff := cmp.Diff(string(one), string(same)); diff != "" {
		t.Errorf("the same kernel (-one +other):\n%s", diff)
	}
	if other := options([]byte("CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n")); string(other) == string(one) {
		t.Errorf("another kernel has the same options %q", other)
	}
}

func TestACacheFillsOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fills := 0
	fill := func(dir string) error {
		fills++
		return os.WriteFile(filepath.Join(dir, "bzImage"), []byte("kernel"), 0o644)
	}
	if _, err := cached("k", func(string) error { return os.ErrInvalid }); err == nil {
		t.Error("a failed build counts as cached")
	}
	for range 2 {
		image, err := cached("k", fill)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(image); err != nil {
			t.Error(err)
		}
	}
	if fills != 1 {
		t.Errorf("filled %d times", fills)
	}
}

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/controlplane"
)

// ErrNotBuilt says that the programs have to be built first.
var ErrNotBuilt = errors.New("not built; run: go -C test/cluster run ./programs build")

// release is the Kubernetes release that go.mod requires, for `kubectl version`.
const release = "v1.36.3"

// Programs are the paths of what a test starts.
type Programs struct {
	controlplane.Programs
	Scheduler string // berth-scheduler.
}

// program is one main package.
type program struct {
	name string // Of the file.
	pkg  string // What `go build` takes, in the directory dir.
	dir  string
	path string
}

// layout is where the programs of this source tree are in the cache directory. etcd and
// kube-apiserver depend on the compiler and on go.sum only; two trees with the same ones
// share them. berth-scheduler is the tree's own.
func layout() ([]program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("no cache directory: %w", err)
	}
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("source tree not found")
	}
	here := filepath.Dir(file)
	sums, err := os.ReadFile(filepath.Join(here, "go.sum"))
	if err != nil {
		return nil, err
	}
	base := filepath.Join(cache, "berth", "programs")
	servers := filepath.Join(base, runtime.Version()+"-"+short(sums))
	tree := filepath.Join(base, "scheduler-"+short([]byte(here)))
	scheduler := filepath.Join(here, "..", "..", "cmd", "berth-scheduler")
	return []program{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", dir: here, path: filepath.Join(servers, "etcd")},
		{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", dir: here, path: filepath.Join(servers, "kube-apiserver")},
		{name: "berth-scheduler", pkg: ".", dir: scheduler, path: filepath.Join(tree, "berth-scheduler")},
	}, nil
}

// short names content in a path.
func short(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content))[:12] }

// Find returns the built programs, or ErrNotBuilt and the first that is missing.
func Find() (Programs, error) {
	programs, err := layout()
	if err != nil {
		return Programs{}, err
	}
	for _, p := range programs {
		if _, err := os.Stat(p.path); err != nil {
			return Programs{}, fmt.Errorf("%s %w", p.name, ErrNotBuilt)
		}
	}
	return found(programs), nil
}

func found(programs []program) Programs {
	return Programs{
		Programs:  controlplane.Programs{Etcd: programs[0].path, APIServer: programs[1].path},
		Scheduler: programs[2].path,
	}
}

// Build builds what is not in the cache, and berth-scheduler always, and says on out what it
// does. One process at a time builds; the others wait for its result.
func Build(ctx context.Context, out io.Writer) (Programs, error) {
	programs, err := layout()
	if err != nil {
		return Programs{}, err
	}
	for i, p := range programs {
		if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
			return Programs{}, err
		}
		if err := p.build(ctx, out, i < 2); err != nil {
			return Programs{}, fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return found(programs), prune(filepath.Dir(programs[0].path))
}

// keep is how many older builds of the servers stay, for trees with other dependencies.
const keep = 3

// prune removes the oldest builds beside one.
func prune(current string) error {
	builds, err := filepath.Glob(filepath.Join(filepath.Dir(current), "go*"))
	if err != nil {
		return err
	}
	ages := map[string]time.Time{}
	for _, build := range builds {
		if info, err := os.Stat(build); err == nil && build != current {
			ages[build] = info.ModTime()
		}
	}
	for len(ages) > keep {
		oldest := ""
		for build, age := range ages {
			if oldest == "" || age.Before(ages[oldest]) {
				oldest = build
			}
		}
		if err := os.RemoveAll(oldest); err != nil {
			return err
		}
		delete(ages, oldest)
	}
	return nil
}

// build builds the program under a lock, unless a cached one may stand. The compiler writes
// beside the place, and the rename makes it visible: a build that was killed leaves nothing
// that looks done, and a program that runs keeps its file.
func (p program) build(ctx context.Context, out io.Writer, cached bool) error {
	unlock, err := lock(filepath.Join(filepath.Dir(p.path), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(p.path); cached && err == nil {
		return nil
	}
	fmt.Fprintf(out, "building %s (the first time takes minutes)\n", p.name)
	start := time.Now()
	draft := p.path + ".draft"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false",
		"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion="+release, "-o", draft, p.pkg)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	if err := os.Rename(draft, p.path); err != nil {
		return err
	}
	fmt.Fprintf(out, "built %s in %v\n", p.name, time.Since(start).Round(time.Second))
	return nil
}

// lock takes an exclusive lock on a file and waits for it.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { file.Close() }, nil
}

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/cluster/controlplane"
	"github.com/berth-project/berth/test/flags"
	"github.com/berth-project/berth/test/tree"
)

// ErrNotBuilt reports that the programs have not been built.
var ErrNotBuilt = errors.New("not built; run: go -C test/cluster run ./programs build")

// kubernetesRelease is the release of Kubernetes that go.mod requires, for `kubectl version`.
const kubernetesRelease = "v1.36.1"

// Programs are the paths of the programs that a test or a cluster starts.
type Programs struct {
	controlplane.Programs
	ControllerManager, Kubelet, KubeProxy, Kubectl string            // Of Kubernetes.
	Containerd, Shim, Ctr, Runc                    string            // The container runtime.
	CNI                                            string            // A directory: bridge, host-local, loopback, portmap.
	Scheduler                                      string            // berth-scheduler.
	Berth                                          string            // berth.
	Images                                         string            // Packs and serves the images; see runtime/images.
	Contained                                      map[string]string // Programs inside images, by image name.
	BenchSchedule                                  string            // benchschedule: for `berth bench schedule`.
	LocalCluster                                   string            // localcluster: starts and ends the cluster.
	Pack                                           string            // Archives images, as for `make dist`.
	Release                                        Release           // Of berth, berth-scheduler and their images.
	Packed                                         string            // Directory of the images of Debian's programs.
}

// program is one main package.
type program struct {
	name string // Name of the file.
	pkg  string // Argument of `go build` in the directory dir.
	dir  string
	path string
	own  bool // Built from this tree, always: the compiler decides whether it is up to date.
	// apart says that only BuildHelm builds the program, and that Find does not look for it.
	apart bool
}

// builtFrom is the source tree that a program was built from. Build sets it through the linker, because the compiler
// writes no paths of this machine into its output (-trimpath).
var builtFrom string

// Root returns the source tree that this program was built from. If `go test` or `go run` built it, Root returns the
// tree around the working directory.
func Root() (string, error) {
	if builtFrom != "" {
		return builtFrom, nil
	}
	return tree.Root()
}

// layout returns the paths of this source tree's programs in the cache directory. Foreign programs depend only on the
// compiler and on the go.sum of their module, so trees with the same compiler and go.sum share them. Each tree has its
// own copies of the other programs.
func layout() ([]program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("no cache directory: %w", err)
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	here := filepath.Join(root, "test", "cluster")
	base := filepath.Join(cache, "berth", "programs")
	var programs []program
	for _, module := range []struct {
		name, dir string
		packages  []string
		apart     bool
	}{
		{"go", here, kubernetesPackages(), false},
		{"runtime-go", filepath.Join(here, "runtime"), runtimePackages(), false},
		{"chart-go", filepath.Join(root, "test", "chart"), []string{"helm.sh/helm/v4/cmd/helm"}, true}, // For the reason of runtimePackages.
	} {
		sums, err := os.ReadFile(filepath.Join(module.dir, "go.sum"))
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(base, module.name+strings.TrimPrefix(runtime.Version(), "go")+"-"+short(sums))
		for _, pkg := range module.packages {
			name := path.Base(strings.TrimSuffix(pkg, "/server/v3"))
			programs = append(programs, program{name: name, pkg: pkg, dir: module.dir, path: filepath.Join(dir, name), apart: module.apart})
		}
	}
	built := filepath.Join(base, "tree-"+short([]byte(here)))
	for _, own := range []struct{ name, pkg, dir string }{
		{"berth-scheduler", ".", filepath.Join(root, "cmd", "berth-scheduler")},
		{"berth", "./cmd/berth", root},
		{"images", "./images", filepath.Join(here, "runtime")},
		{"pause", "./container/pause", here},
		{"pi", "./container/pi", here},
		{"demo", "./container/demo", here},
		{"mask", "./container/mask", here},
		{"burn", "./container/burn", here},
		{"load", "./container/load", here},
		{"spread", "./container/spread", here},
		{"benchschedule", "./benchschedule", here},
		{"localcluster", "./localcluster", here},
		{"pack", "./pack", filepath.Join(root, "tools", "image")},
		{"tour", "./tour", here},
	} {
		programs = append(programs, program{name: own.name, pkg: own.pkg, dir: own.dir, path: filepath.Join(built, own.name), own: true})
	}
	return programs, nil
}

// kubernetesPackages are built from this module. The first two come first, because they suffice for most tests.
func kubernetesPackages() []string {
	return []string{
		"go.etcd.io/etcd/server/v3",
		"k8s.io/kubernetes/cmd/kube-apiserver",
		"k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kubelet",
		"k8s.io/kubernetes/cmd/kube-proxy",
		"k8s.io/kubernetes/cmd/kubectl",
	}
}

// runtimePackages are built from the module runtime, because they need other versions of the Kubernetes libraries than
// Kubernetes itself.
func runtimePackages() []string {
	return []string{
		"github.com/containerd/containerd/v2/cmd/containerd",
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr",
		runc,
		"github.com/containernetworking/plugins/plugins/main/bridge",
		"github.com/containernetworking/plugins/plugins/main/loopback",
		"github.com/containernetworking/plugins/plugins/ipam/host-local",
		"github.com/containernetworking/plugins/plugins/meta/portmap",
	}
}

// short returns a short hash that names content in a path.
func short(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content))[:12] }

// Find returns the built programs, or ErrNotBuilt with the first missing program.
func Find() (Programs, error) {
	programs, err := layout()
	if err != nil {
		return Programs{}, err
	}
	for _, p := range programs {
		if _, err := os.Stat(p.path); err != nil && !p.apart {
			return Programs{}, fmt.Errorf("%s %w", p.name, ErrNotBuilt)
		}
	}
	all := found(programs)
	all.Release, err = readRelease(all.Berth)
	return all, err
}

// Path returns the path of a program, whether it is built or not.
func Path(name string) (string, error) {
	programs, err := layout()
	if err != nil {
		return "", err
	}
	for _, p := range programs {
		if p.name == name {
			return p.path, nil
		}
	}
	return "", fmt.Errorf("there is no program %q here", name)
}

func found(programs []program) Programs {
	at := map[string]string{}
	for _, p := range programs {
		at[p.name] = p.path
	}
	return Programs{
		Programs:          controlplane.Programs{Etcd: at["etcd"], APIServer: at["kube-apiserver"]},
		ControllerManager: at["kube-controller-manager"], Kubelet: at["kubelet"],
		KubeProxy: at["kube-proxy"], Kubectl: at["kubectl"],
		Containerd: at["containerd"], Shim: at["containerd-shim-runc-v2"], Ctr: at["ctr"], Runc: at["runc"],
		CNI:       filepath.Dir(at["bridge"]),
		Scheduler: at["berth-scheduler"], Berth: at["berth"], Images: at["images"],
		Contained: map[string]string{
			"berth": at["berth"], "berth-scheduler": at["berth-scheduler"],
			"pause": at["pause"], "java-pi": at["pi"], "go-demo": at["demo"],
			"berth-mask": at["mask"], "berth-burn": at["burn"], "berth-load": at["load"],
			"berth-spread": at["spread"],
		},
		BenchSchedule: at["benchschedule"],
		LocalCluster:  at["localcluster"],
		Pack:          at["pack"],
		Packed:        filepath.Join(filepath.Dir(at["images"]), "..", "..", "images"),
	}
}

// Build builds the programs that are not in the cache, and always the tree's own programs, and writes its progress to
// out. Only one process builds at a time; other processes wait for its result.
func Build(ctx context.Context, out io.Writer) (Programs, error) {
	programs, err := layout()
	if err != nil {
		return Programs{}, err
	}
	release, err := currentRelease(ctx)
	if err != nil {
		return Programs{}, err
	}
	programs = slices.DeleteFunc(programs, func(p program) bool { return p.apart })
	if err := buildAll(ctx, out, programs, release); err != nil {
		return Programs{}, err
	}
	all := found(programs)
	all.Release = release
	if err := errors.Join(release.write(all.Berth), pack(ctx, out, all)); err != nil {
		return Programs{}, err
	}
	return all, errors.Join(prune(filepath.Dir(all.Etcd), "go*"), prune(filepath.Dir(all.Runc), "runtime-go*"))
}

// BuildHelm builds Helm's client, of the version that test/chart renders with, unless it is in the cache, and returns
// its path. The other programs do not include it, because only a case of `make verify-node` needs it.
func BuildHelm(ctx context.Context, out io.Writer) (string, error) {
	programs, err := layout()
	if err != nil {
		return "", err
	}
	apart := slices.DeleteFunc(programs, func(p program) bool { return !p.apart })
	if err := buildAll(ctx, out, apart, Release{}); err != nil {
		return "", err
	}
	return apart[0].path, prune(filepath.Dir(apart[0].path), "chart-go*")
}

// buildAll builds programs one after the other. The release is that of the shipped programs.
func buildAll(ctx context.Context, out io.Writer, programs []program, release Release) error {
	for _, p := range programs {
		if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
			return err
		}
		if err := p.build(ctx, out, release); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return nil
}

// pack packs the images that are missing in the cache.
func pack(ctx context.Context, out io.Writer, p Programs) error {
	if err := os.MkdirAll(p.Packed, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(p.Packed, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, p.Images, "pack", p.Packed)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pack images: %w", err)
	}
	return nil
}

// keep is how many older builds of the servers remain, for trees with other dependencies.
const keep = 3

// prune removes the oldest builds that match the pattern, except the current build.
func prune(current, pattern string) error {
	builds, err := filepath.Glob(filepath.Join(filepath.Dir(current), pattern))
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

// build builds the program under a lock, unless a cached build can be used. The compiler writes to a draft, and a
// rename makes it visible. A killed build therefore leaves nothing that looks complete, and a running program keeps its
// file.
func (p program) build(ctx context.Context, out io.Writer, release Release) error {
	unlock, err := lock(filepath.Join(filepath.Dir(p.path), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(p.path); !p.own && err == nil {
		return nil
	}
	start := time.Now()
	if !p.own {
		fmt.Fprintf(out, "building %s (the first time takes minutes)\n", p.name)
	}
	draft := p.path + ".draft"
	if err := errors.Join(os.RemoveAll(draft), p.reuse(draft)); err != nil {
		return err
	}
	compiling, err := flags.Compiling(p.dir)
	if err != nil {
		return err
	}
	linking, err := p.linking(release)
	if err != nil {
		return err
	}
	cgo := "CGO_ENABLED=0"
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, compiling...)...)
	if p.pkg == runc {
		overlay, err := completed(filepath.Dir(p.path))
		if err != nil {
			return err
		}
		cgo = "CGO_ENABLED=1"
		cmd.Args = append(cmd.Args, "-overlay="+overlay, "-tags=seccomp netgo osusergo static_build")
	}
	cmd.Args = append(cmd.Args, "-ldflags="+linking, "-o", draft, p.pkg)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), cgo)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	if err := os.Rename(draft, p.path); err != nil {
		return err
	}
	if took := time.Since(start); !p.own || took > time.Second {
		fmt.Fprintf(out, "built %s in %v\n", p.name, took.Round(time.Second))
	}
	return nil
}

// linking returns the linker's flags for the program.
func (p program) linking(release Release) (string, error) {
	switch {
	case p.pkg == runc:
		return "-s -w -extldflags -static", nil // Static, to run on any node.
	case p.name == "berth", p.name == "berth-scheduler":
		return release.linking(p.name), nil
	}
	flags := "-s -w " + kubernetesVersion()
	if !p.own {
		return flags, nil
	}
	root, err := Root()
	return flags + " -X github.com/berth-project/berth/test/cluster.builtFrom=" + root, err
}

// reuse gives the compiler its last output, which it does not rewrite if it is up to date.
func (p program) reuse(draft string) error {
	if err := os.Link(p.path, draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lock waits for an exclusive lock on a file.
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

// Write lists the programs as `name path` lines.
func (p Programs) Write(out io.Writer) error {
	list := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, path := range []string{
		p.Etcd, p.APIServer, p.ControllerManager, p.Kubelet, p.KubeProxy, p.Kubectl,
		p.Containerd, p.Shim, p.Ctr, p.Runc, p.Scheduler, p.Berth, p.Images, p.BenchSchedule, p.LocalCluster, p.Pack,
	} {
		fmt.Fprintf(list, "%s\t%s\n", filepath.Base(path), path)
	}
	fmt.Fprintf(list, "cni\t%s\n", p.CNI)
	return list.Flush()
}

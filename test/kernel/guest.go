package kernel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"github.com/berth-project/berth/test/flags"
	"github.com/berth-project/berth/test/kernel/job"
)

// Guest collects the content of a VM's image: programs, files and jobs.
type Guest struct {
	source string // Root of the module.
	dir    string // Scratch directory for built programs and the image.
	image  *os.File
	out    *bufio.Writer
	files  *Archive
	jobs   []job.Job
}

// NewGuest starts an image in the directory dir, which the caller removes. It includes the init program, built from the
// module at source.
func NewGuest(ctx context.Context, source, dir string) (*Guest, error) {
	image, err := os.Create(filepath.Join(dir, "initramfs"))
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(image, 1<<20)
	g := &Guest{source: source, dir: dir, image: image, out: out, files: NewArchive(out)}
	for _, mounted := range []string{"/dev", "/proc", "/sys", "/tmp", "/run"} {
		g.files.Dir(mounted)
	}
	return g, g.Program(ctx, "/init", "./test/kernel/guest")
}

// Program builds a main package for the guest and puts it at the absolute path name.
func (g *Guest) Program(ctx context.Context, name, pkg string) error {
	return g.build(ctx, name, "build", pkg)
}

// Tests builds the test binary of pkg and puts it and the package's testdata into /tests/<pkg>. It adds the job that
// runs the named tests, for VMs with this stride.
func (g *Guest) Tests(ctx context.Context, pkg string, tests []string, stride int) error {
	return g.TestsWith(ctx, Cases{Package: pkg, Tests: tests}, stride, job.Job{Name: pkg})
}

// TestsWith is Tests with the job's name, environment and file.
func (g *Guest) TestsWith(ctx context.Context, c Cases, stride int, j job.Job) error {
	j.Dir = path.Join("/tests", c.Package)
	binary := path.Join(j.Dir, "live.test")
	if err := g.build(ctx, binary, "test", "-c", "./"+c.Package); err != nil {
		return err
	}
	if err := g.tree(c.Package, j.Dir, "testdata"); err != nil {
		return err
	}
	j.Argv = append([]string{binary, "-test.v", "-test.timeout=" + limit(stride).String()}, c.arguments()...)
	g.Job(j)
	return nil
}

// File adds a file at the absolute path name.
func (g *Guest) File(name string, content []byte) { g.files.File(name, content) }

// Job adds one job; the guest runs jobs in the order of the calls.
func (g *Guest) Job(j job.Job) { g.jobs = append(g.jobs, j) }

// Close finishes the image and returns its path.
func (g *Guest) Close() (string, error) {
	list, err := json.Marshal(g.jobs)
	if err != nil {
		return "", fmt.Errorf("encode jobs: %w", err)
	}
	g.files.File(job.File, list)
	if err := g.files.Close(); err != nil {
		return "", err
	}
	if err := g.out.Flush(); err != nil {
		return "", fmt.Errorf("write %s: %w", g.image.Name(), err)
	}
	return g.image.Name(), g.image.Close()
}

// build adds the program that the go command makes.
func (g *Guest) build(ctx context.Context, name, verb string, args ...string) error {
	made := filepath.Join(g.dir, "program")
	if err := Compile(ctx, g.source, made, verb, args...); err != nil {
		return err
	}
	content, err := os.ReadFile(made)
	if err != nil {
		return err
	}
	g.files.File(name, content)
	return nil
}

// Compile runs the go command at source for amd64, the architecture of the guests, and makes the file made.
func Compile(ctx context.Context, source, made, verb string, args ...string) error {
	return compileFor(ctx, "amd64", source, verb, append([]string{"-o", made}, args...)...)
}

// compileFor runs the go command at source for an architecture, with the flags of the Makefile. It makes a static
// program without symbols, because an emulated CPU reads the image.
func compileFor(ctx context.Context, arch, source, verb string, args ...string) error {
	compiling, err := flags.Compiling(source)
	if err != nil {
		return err
	}
	args = slices.Concat([]string{verb}, compiling, []string{"-ldflags=-s -w"}, args)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return nil
}

// tree copies the directory source/pkg/sub, if there is one, to dir/sub in the guest.
func (g *Guest) tree(pkg, dir, sub string) error {
	from := os.DirFS(filepath.Join(g.source, pkg))
	if _, err := fs.Stat(from, sub); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(from, sub, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		g.files.File(path.Join(dir, name), content)
		return nil
	})
}

package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // kernel.config
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

//go:embed kernel.config
var fragment []byte

// Own returns the test kernel: the newest installed linux-source package, configured by kernel.config. The kernel cases
// and the nodes of test/cluster/vmnode boot it. If the cache has no kernel of this source and these options, Own builds
// it, which takes about eight minutes on two cores, and writes its progress to log.
func Own(ctx context.Context, log io.Writer) (Kernel, error) { return own(ctx, log, fragment) }

// OwnAt is Own with another number of ticks per second that the kernel supports: 100, 250, 300 or 1000.
func OwnAt(ctx context.Context, log io.Writer, hz int) (Kernel, error) {
	config, err := ticking(fragment, hz)
	if err != nil {
		return Kernel{}, err
	}
	return own(ctx, log, config)
}

// defaultHZ is the number of ticks per second in kernel.config.
const defaultHZ = 250

// errHZ reports an unsupported number of ticks per second.
var errHZ = errors.New("ticks a second")

// ticking returns a fragment with another number of ticks per second.
func ticking(fragment []byte, hz int) ([]byte, error) {
	if !slices.Contains([]int{100, defaultHZ, 300, 1000}, hz) {
		return nil, fmt.Errorf("%w: %d; allowed: 100, 250, 300, 1000", errHZ, hz)
	}
	if hz == defaultHZ {
		return fragment, nil
	}
	option := fmt.Sprintf("CONFIG_HZ_%d", defaultHZ)
	before := []byte(option + "=y\n")
	if !bytes.Contains(fragment, before) {
		return nil, fmt.Errorf("%w: kernel.config has no %s", errHZ, option)
	}
	return bytes.Replace(fragment, before, fmt.Appendf(nil, "# %s is not set\nCONFIG_HZ_%d=y\n", option, hz), 1), nil
}

// own returns the test kernel with these options.
func own(ctx context.Context, log io.Writer, config []byte) (Kernel, error) {
	if err := checkPackages(ctx); err != nil {
		return Kernel{}, err
	}
	tarball, err := newestSource()
	if err != nil {
		return Kernel{}, err
	}
	name := packageName(tarball)
	version, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil {
		return Kernel{}, fmt.Errorf("version of %s: %w", name, err)
	}
	key := fmt.Sprintf("%s_%s_%.6x", name, version, sha256.Sum256(options(config)))
	image, err := cached(key, func(dir string) error {
		b := build{log: log, name: name, config: config, dir: dir, tree: filepath.Join(dir, "source")}
		return b.run(ctx, tarball)
	})
	return Kernel{Series: series(name), Image: image}, err
}

// newestSource returns the newest kernel source archive in /usr/src.
func newestSource() (string, error) {
	found, err := filepath.Glob("/usr/src/linux-source-*.tar.*")
	if err != nil {
		return "", fmt.Errorf("look for kernel sources: %w", err)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%w: no /usr/src/linux-source-*.tar.*", ErrMissing)
	}
	return slices.MaxFunc(found, compareVersions), nil
}

// packageName returns the Debian package of a source archive: its name up to ".tar".
func packageName(tarball string) string {
	name, _, _ := strings.Cut(filepath.Base(tarball), ".tar")
	return name
}

// build is one build of a kernel, in a directory that contains nothing else.
type build struct {
	log             io.Writer
	config          []byte // The fragment.
	name, dir, tree string
}

// run unpacks, configures, compiles, copies the image and removes the tree (2 GB).
func (b build) run(ctx context.Context, tarball string) error {
	config := filepath.Join(b.dir, "kernel.config")
	if err := os.WriteFile(config, b.config, 0o644); err != nil {
		return err
	}
	if err := os.Mkdir(b.tree, 0o755); err != nil {
		return err
	}
	if err := b.steps(ctx,
		[]string{"tar", "-xf", tarball, "--strip-components=1"},
		[]string{"make", "-s", "tinyconfig"},
		[]string{"scripts/kconfig/merge_config.sh", "-m", ".config", config},
		[]string{"make", "-s", "olddefconfig"},
	); err != nil {
		return err
	}
	if err := b.checkConfig(); err != nil {
		return err
	}
	if err := b.steps(ctx, []string{"make", fmt.Sprintf("-j%d", runtime.NumCPU()), "bzImage"}); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(b.tree, "arch/x86/boot/bzImage"), filepath.Join(b.dir, "bzImage")); err != nil {
		return err
	}
	return os.RemoveAll(b.tree)
}

// steps runs commands one after the other until one fails.
func (b build) steps(ctx context.Context, commands ...[]string) error {
	for _, argv := range commands {
		if err := b.step(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

// step runs one command in the tree. If it fails, the error contains the end of its output.
func (b build) step(ctx context.Context, argv []string) error {
	fmt.Fprintf(b.log, "%s: %s\n", b.name, strings.Join(argv, " "))
	var out bytes.Buffer
	counter := &progress{log: b.log, name: b.name}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = b.tree
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, counter), &out
	if err := cmd.Run(); err != nil {
		text := out.String()
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text[max(0, len(text)-4000):])
	}
	return nil
}

// checkConfig compares the fragment with the resulting configuration: an option that another option turned off is a
// mistake in the fragment, not a smaller kernel.
func (b build) checkConfig() error {
	config, err := os.ReadFile(filepath.Join(b.tree, ".config"))
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(config)) {
		have[line] = true
	}
	for _, line := range wanted(b.config) {
		if !have[line] {
			err = errors.Join(err, fmt.Errorf("kernel.config: %s did not survive", strings.TrimSpace(line)))
		}
	}
	return err
}

// wanted returns the lines of a fragment that set options. The last line about an option takes effect, so that one
// fragment can change another.
func wanted(fragment []byte) map[string]string {
	last := map[string]string{}
	for line := range strings.Lines(string(fragment)) {
		setting := strings.TrimPrefix(line, "# ")
		if option := strings.FieldsFunc(setting, func(r rune) bool { return r == '=' || r == ' ' }); strings.HasPrefix(setting, "CONFIG_") {
			last[option[0]] = line
		}
	}
	return last
}

// options returns the settings of a fragment, in order and without its comments.
func options(fragment []byte) []byte {
	set := wanted(fragment)
	var text []byte
	for _, option := range slices.Sorted(maps.Keys(set)) {
		text = append(text, set[option]...)
	}
	return text
}

// progress counts lines: make prints one for each file it compiles, about 2,000.
type progress struct {
	log   io.Writer
	name  string
	lines int
}

func (p *progress) Write(text []byte) (int, error) {
	const every = 250
	before := p.lines
	p.lines += bytes.Count(text, []byte("\n"))
	if before/every != p.lines/every {
		fmt.Fprintf(p.log, "%s: %d files\n", p.name, p.lines)
	}
	return len(text), nil
}

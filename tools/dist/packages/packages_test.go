package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // The two formats.
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// calls is the file to which the substitutes for systemctl and berth write their command lines.
const calls = "calls"

// program is the script of such a substitute. It fails if /broken has a file of its name.
const program = `#!/bin/sh
echo "${0##*/} $*" >>/calls
[ ! -e "/broken/${0##*/}" ]
`

// notices are the licenses in a package of a test.
const notices = "the licenses of modules\n"

// manager is a package manager that works on a root directory.
type manager struct {
	format  string
	zsh     string // where the distribution's zsh finds completions of packages
	install func(root, file string) []string
	remove  func(root string) []string
}

func managers() []manager {
	return []manager{
		{
			format:  "deb",
			zsh:     "vendor-completions",
			install: func(root, file string) []string { return []string{"dpkg", "--root=" + root, "--install", file} },
			remove:  func(root string) []string { return []string{"dpkg", "--root=" + root, "--remove", "berth"} },
		},
		{
			format: "rpm",
			zsh:    "site-functions",
			// The records of this root directory do not list a shell, so rpm must not check dependencies.
			install: func(root, file string) []string {
				return []string{"rpm", "--root", root, "--upgrade", "--nodeps", "--ignorearch", file}
			},
			remove: func(root string) []string { return []string{"rpm", "--root", root, "--erase", "berth"} },
		},
	}
}

// machine is a root directory with a shell and the records of a package manager.
type machine struct {
	manager
	t    *testing.T
	root string
}

func newMachine(t *testing.T, m manager) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("scripts of packages run in a root directory of their own, which only root can enter; `make test` as root runs this")
	}
	if _, err := exec.LookPath(m.remove("")[0]); err != nil {
		t.Skipf("%v; `make deps` installs it, and `make test` has that", err)
	}
	v := &machine{manager: m, t: t, root: t.TempDir()}
	for _, dir := range []string{"var/lib/rpm", "var/lib/dpkg/updates", "var/lib/dpkg/info", "run/systemd/system", "usr/bin", "bin", "broken"} {
		if err := os.MkdirAll(v.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	v.program("/bin/sh")
	v.write("usr/bin/systemctl", program, 0o755)
	v.write("var/lib/dpkg/status", "", 0o644)
	return v
}

func (v *machine) path(name string) string { return filepath.Join(v.root, name) }

func (v *machine) write(name, content string, mode os.FileMode) {
	v.t.Helper()
	if err := os.WriteFile(v.path(name), []byte(content), mode); err != nil {
		v.t.Fatal(err)
	}
}

func (v *machine) read(name string) string {
	v.t.Helper()
	text, err := os.ReadFile(v.path(name))
	if err != nil && !os.IsNotExist(err) {
		v.t.Fatal(err)
	}
	return string(text)
}

// program copies a program of this host into the root directory, with the libraries that its loader needs.
func (v *machine) program(name string) {
	v.t.Helper()
	files := []string{name}
	if said, err := exec.CommandContext(v.t.Context(), "ldd", name).Output(); err == nil {
		for field := range strings.FieldsSeq(string(said)) {
			if filepath.IsAbs(field) {
				files = append(files, field)
			}
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			v.t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(v.path(file)), 0o755); err != nil {
			v.t.Fatal(err)
		}
		v.write(file, string(content), 0o755)
	}
}

// run runs the package manager and returns the commands that the package's scripts called.
func (v *machine) run(argv []string) []string {
	v.t.Helper()
	if err := os.RemoveAll(v.path(calls)); err != nil {
		v.t.Fatal(err)
	}
	if said, err := exec.CommandContext(v.t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		v.t.Fatalf("%v: %v\n%s", argv, err, said)
	}
	return strings.Split(strings.TrimSuffix(v.read(calls), "\n"), "\n")
}

// pack builds a package of a version from deploy/package/nfpm.yaml, with program as its berth.
func (v *machine) pack(version string) string {
	v.t.Helper()
	out := v.t.TempDir()
	for name, content := range map[string]string{
		"berth-linux-amd64": program, "berth-THIRD_PARTY_NOTICES": notices, "pages/man/berth.1.gz": "", "pages/berth.bash": "", "pages/_berth": "", "pages/berth.fish": "",
	} {
		name = filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			v.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			v.t.Fatal(err)
		}
	}
	v.t.Chdir("../../..") // The paths in the file are relative to the tree.
	defer v.t.Chdir("tools/dist/packages")
	variables := map[string]string{"ARCH": "amd64", "PACKAGE_VERSION": version, "OUT": out}
	config, err := nfpm.ParseFileWithEnvMapping("deploy/package/nfpm.yaml", func(name string) string { return variables[name] })
	if err != nil {
		v.t.Fatal(err)
	}
	file := filepath.Join(out, "berth-"+version+"."+v.format)
	if err := write(config, v.format, file); err != nil {
		v.t.Fatal(err)
	}
	return file
}

func write(config nfpm.Config, format, file string) (err error) {
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	if err := packager.Package(info, out); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// check compares the called commands with the expected commands.
func (v *machine) check(when string, got []string, want ...string) {
	v.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		v.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

const edited = "workloadDir: /etc/berth/workloads\nreservedCPUs: \"0\"\n"

// TestLifeOfPackage installs, upgrades and removes the package. An installation starts nothing. An upgrade restarts the
// running agent and restores nothing. A removal stops the agent and then restores all values. The user's files stay.
func TestLifeOfPackage(t *testing.T) {
	for _, m := range managers() {
		t.Run(m.format, func(t *testing.T) {
			v := newMachine(t, m)
			v.check("install", v.run(m.install(v.root, v.pack("1.0.0"))), "systemctl daemon-reload")
			if link, err := os.Readlink(v.path("usr/bin/kubectl-berth")); err != nil || link != "berth" && link != "/usr/bin/berth" {
				t.Errorf("kubectl-berth is %q: %v", link, err)
			}
			if there, err := filepath.Glob(v.path("usr/share/zsh/*/_berth")); err != nil || len(there) != 1 || filepath.Base(filepath.Dir(there[0])) != m.zsh {
				t.Errorf("completion of zsh in %q: %v", there, err)
			}
			if got := v.read("usr/share/doc/berth/THIRD_PARTY_NOTICES"); got != notices {
				t.Errorf("the licenses are %q", got)
			}
			v.write("etc/berth/agent.yaml", edited, 0o644)
			v.write("etc/berth/workloads/redis.yaml", "of the user", 0o644)
			upgraded := v.run(m.install(v.root, v.pack("1.1.0")))
			want := []string{"systemctl daemon-reload", "systemctl try-restart berth-agent.service"}
			if m.format == "rpm" {
				want = append(want, "systemctl daemon-reload") // By the old version's script.
			} else {
				want = append([]string{"systemctl daemon-reload"}, want...)
			}
			v.check("upgrade", upgraded, want...)
			if got := v.read("etc/berth/agent.yaml"); got != edited {
				t.Errorf("after the upgrade agent.yaml is %q", got)
			}
			v.check("remove", v.run(m.remove(v.root)),
				"systemctl disable --now berth-agent.service", "systemctl disable --now berth-tune.service",
				"systemctl disable --now berth-ahead.service", "berth rollback", "systemctl daemon-reload")
			if got := v.read("etc/berth/workloads/redis.yaml"); got != "of the user" {
				t.Errorf("after the removal the user's workload is %q", got)
			}
			if _, err := os.Stat(v.path("usr/lib/systemd/system/berth-agent.service")); !os.IsNotExist(err) {
				t.Errorf("the unit of the package is there: %v", err)
			}
		})
	}
}

// TestRemovedAllTheSame checks that a package can always be removed, even if berth cannot restore values and systemd
// does not answer.
func TestRemovedAllTheSame(t *testing.T) {
	for _, m := range managers() {
		t.Run(m.format, func(t *testing.T) {
			v := newMachine(t, m)
			v.run(m.install(v.root, v.pack("1.0.0")))
			v.write("broken/berth", "", 0o644)
			v.write("broken/systemctl", "", 0o644)
			v.check("remove", v.run(m.remove(v.root)),
				"systemctl disable --now berth-agent.service", "systemctl disable --now berth-tune.service",
				"systemctl disable --now berth-ahead.service", "berth rollback", "systemctl daemon-reload")
		})
	}
}

// TestWithoutSystemd checks that the scripts do not call systemctl without systemd, as in a container or a chroot.
func TestWithoutSystemd(t *testing.T) {
	for _, m := range managers() {
		t.Run(m.format, func(t *testing.T) {
			v := newMachine(t, m)
			if err := os.RemoveAll(v.path("run")); err != nil {
				t.Fatal(err)
			}
			v.check("install", v.run(m.install(v.root, v.pack("1.0.0"))), "")
			v.check("remove", v.run(m.remove(v.root)), "berth rollback")
		})
	}
}

// TestHandMadeUnit checks what happens to the administrator's own unit, which systemd prefers to the package's. The file
// stays unchanged. A unit that starts another program is neither restarted by an upgrade nor stopped by the removal.
func TestHandMadeUnit(t *testing.T) {
	const restart, stop = "systemctl try-restart berth-agent.service", "systemctl disable --now berth-agent.service"
	for _, unit := range []struct {
		name, text string
		packages   bool // it starts the package's program
	}{
		{"another program", "[Service]\nExecStart=/opt/berth/usr/bin/berth agent\n", false},
		{"no command", "by hand", false},
		{"the package's program", "[Service]\nExecStart=-/usr/bin/berth agent --config /srv/agent.yaml\n", true},
	} {
		for _, m := range managers() {
			t.Run(unit.name+"/"+m.format, func(t *testing.T) {
				v := newMachine(t, m)
				const file = "etc/systemd/system/berth-agent.service"
				if err := os.MkdirAll(filepath.Dir(v.path(file)), 0o755); err != nil {
					t.Fatal(err)
				}
				v.write(file, unit.text, 0o644)
				v.run(m.install(v.root, v.pack("1.0.0")))
				if called := v.run(m.install(v.root, v.pack("1.1.0"))); slices.Contains(called, restart) != unit.packages {
					t.Errorf("the upgrade called %q", called)
				}
				called := v.run(m.remove(v.root))
				if slices.Contains(called, stop) != unit.packages || !slices.Contains(called, "systemctl disable --now berth-tune.service") {
					t.Errorf("the removal called %q", called)
				}
				if got := v.read(file); got != unit.text {
					t.Errorf("the unit is %q", got)
				}
			})
		}
	}
}

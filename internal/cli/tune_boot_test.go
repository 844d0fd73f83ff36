package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/test/loader"
)

// TestTuneBootOutput compares the output of the commands with golden files on a machine of each boot loader, through
// the boot on trial. Afterwards the files are as before.
func TestTuneBootOutput(t *testing.T) {
	again := []string{"plan p", "apply p", "verify", "commit", "boot", "list", "verify", "commit", "verify", "rollback"}
	for name, steps := range map[string][]string{
		"debian-grub":       again, // a directory has no update-grub, which the commit needs
		"debian-lvm":        {"plan p", "apply p", "apply p --no-trial", "bench p -- true"},
		"rhel-bls":          again,
		"systemd-boot":      again,
		"extlinux":          {"plan p", "apply p", "apply p --no-trial", "verify", "commit", "boot", "verify", "rollback", "apply bad --no-trial"},
		"unified-image":     {"plan p", "apply p", "apply p --no-trial", "boot", "apply p", "verify", "rollback"},
		"ostree":            {"apply p"},
		"two-loaders":       {"apply p"},
		"grub2-without-bls": {"apply p", "bench p -- true"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bootHost(t, name)
			before := onDisk(t, dir)
			var out strings.Builder
			for i, step := range steps {
				fmt.Fprintf(&out, "$ berth tune %s\n", step)
				if step == "boot" {
					write(t, dir, "proc/sys/kernel/random/boot_id", fmt.Sprintf("boot-%d\n", i))
					write(t, dir, "proc/cmdline", "ro nohz_full=1-3 skew_tick=1\n")
					loader.End(t, dir)
					continue
				}
				code, stdout, stderr := berthRun(t, append([]string{"tune", "--root", dir}, profiled(dir, step)...)...)
				if step == "list" { // without the profiles
					stdout = stdout[strings.LastIndex(stdout, "\n\n")+2:]
				}
				fmt.Fprintf(&out, "%s%s[exit %d]\n\n", stdout, stderr, code)
			}
			text := strings.ReplaceAll(out.String(), dir, "DIR")
			text = regexp.MustCompile(`20\d\d-\d\d-\d\dT[0-9:+Z-]+`).ReplaceAllString(text, "DEADLINE")
			file := filepath.Join("testdata/tune", "boot-"+name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(content(t, file), text); diff != "" {
				t.Errorf("-update writes %s (-file +now):\n%s", file, diff)
			}
			if diff := cmp.Diff(before, onDisk(t, dir)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

// profiled replaces the name of a profile by its file.
func profiled(dir, step string) []string {
	args := strings.Fields(step)
	if len(args) > 1 {
		args[1] = filepath.Join(dir, args[1]+".yaml")
	}
	return args
}

// bootHost returns a host with the boot loader of a machine from package bootargs.
func bootHost(t *testing.T, name string) string {
	t.Helper()
	dir := bigHost(t, 4)
	write(t, dir, "proc/sys/kernel/random/boot_id", "boot-0\n")
	write(t, dir, "p.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {boot: [nohz_full=1-3, skew_tick=1]}\n")
	write(t, dir, "bad.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: bad}\nspec: {boot: ['a=b;c']}\n")
	for file, text := range loader.Files(t, name) {
		write(t, dir, file, text)
	}
	return dir
}

// onDisk returns the content of every file below a directory, except the files that a boot or Berth's own state
// changes. A line of grubenv that GRUB emptied counts as none.
func onDisk(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name := range digest(t, dir) {
		if below := strings.TrimPrefix(name, dir); !strings.HasPrefix(below, "/proc/") && !strings.HasPrefix(below, "/var/") {
			const emptied = bootargs.NextEntry + "=\n"
			files[below] = strings.Replace(content(t, name), emptied, strings.Repeat("#", len(emptied)), 1)
		}
	}
	return files
}

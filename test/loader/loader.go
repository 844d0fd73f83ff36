// Package loader gives tests the recorded machines with a boot loader, and acts as the boot loader in a boot.
package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/internal/linux/bootargs"
)

// deepest is the largest number of folders between a package with such tests and the module's own folder.
const deepest = 6

// Files returns the files of a recorded machine, such as debian-grub, by their paths without the first slash. A record
// is text: an environment block of GRUB gets its full length, and the variable with the loader's name gets its format.
// Files looks for the machines of package bootargs above the caller's folder.
func Files(t testing.TB, machine string) map[string]string {
	t.Helper()
	archive, err := parse(filepath.Join("internal/linux/bootargs/testdata", machine+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		text := string(f.Data)
		switch name := filepath.Base(f.Name); {
		case name == "grubenv":
			text = Block(text)
		case strings.HasPrefix(name, "LoaderInfo-"):
			text = string(bootargs.NewVariable(strings.TrimSpace(text)))
		}
		files[f.Name] = text
	}
	return files
}

// parse reads a file of the module.
func parse(name string) (archive *txtar.Archive, err error) {
	for up, n := ".", 0; n <= deepest; up, n = up+"/..", n+1 {
		if archive, err = txtar.ParseFile(filepath.Join(up, name)); !errors.Is(err, fs.ErrNotExist) {
			return archive, err
		}
	}
	return archive, err
}

// Block returns a text with the padding of GRUB's environment block, which has 1024 bytes.
func Block(text string) string {
	const size = 1024
	return text + strings.Repeat("#", max(size-len(text), 0))
}

// End ends the choice of an entry for one boot, as GRUB and systemd-boot do before they start the kernel. It returns
// the chosen entry, "" for the usual boot. The machine's files are below dir.
func End(t testing.TB, dir string) (entry string) {
	t.Helper()
	variables, err := filepath.Glob(filepath.Join(dir, "sys/firmware/efi/efivars/LoaderEntryOneShot-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range variables {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		entry = bootargs.Variable(data)
	}
	for _, name := range []string{"boot/grub/grubenv", "boot/grub2/grubenv"} {
		next, err := empty(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: %v", name, err)
		}
		if next != "" {
			entry = next
		}
	}
	return entry
}

// empty empties the choice in an environment block, and returns it.
func empty(file string) (entry string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	env, err := bootargs.ReadEnv(data)
	if err != nil {
		return "", err
	}
	if entry, _ = env.Get(bootargs.NextEntry); entry == "" {
		return "", nil
	}
	if data, err = env.Cleared(bootargs.NextEntry).Block(); err != nil {
		return "", err
	}
	return entry, os.WriteFile(file, data, 0o644)
}

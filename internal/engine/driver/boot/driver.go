package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/process"
)

// ErrHidden says that a file may exist although it cannot be seen: its directory is missing.
var ErrHidden = errors.New("its directory is not there: is the partition mounted?")

// ErrElsewhere says that update-grub can make the configuration of the running host only, not of another root
// directory.
var ErrElsewhere = errors.New("update-grub works on the running host only")

// updateGRUB is Debian's program. It is killed after patience, which is long because it may search all disks for other
// systems.
const (
	updateGRUB = "/usr/sbin/update-grub"
	patience   = 5 * time.Minute
)

// Generate makes GRUB's configuration and writes it to a file, whose name is relative to the root.
type Generate func(file string) error

// UpdateGRUB returns a Generate that runs update-grub, which passes its arguments on to grub-mkconfig.
func UpdateGRUB(root *hostfs.Root) Generate {
	return func(file string) error {
		if root.Path() != "/" {
			return fmt.Errorf("make %s: %w", root.Join(file), ErrElsewhere)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return process.Run(ctx, updateGRUB, "-o", root.Join(file))
	}
}

// Kinds returns the kind of target for the host below root.
func Kinds(root *hostfs.Root, generate Generate) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver { return &files{root, generate, call} })
}

type files struct {
	root     *hostfs.Root
	generate Generate
	call     apply.Call
}

// Read returns the value of a target. Its identity is its name, so a replaced file is the same target. An entry that
// was removed together with its kernel is ErrGone: nothing is left to restore.
func (f *files) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	id := plan.Identity(t.Object)
	form, tokens := aim(t)
	text, err := f.root.ReadFile(t.Object)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v, err := f.missing(t, err)
		return v, id, err
	case err != nil:
		return "", id, err
	}
	switch form {
	case menu:
		v := plan.Value(bootargs.Standing(string(text), tokens))
		if v == "" {
			v = none
		}
		return v, id, nil
	case next:
		v, err := chosen(t, text)
		return v, id, err
	}
	return quoted(string(text)), id, nil
}

// missing returns the value of a missing file. If its directory is missing too, the partition may not be mounted; then
// only a file of Berth's own is known not to exist.
func (f *files) missing(t plan.Target, err error) (plan.Value, error) {
	form, _ := aim(t)
	_, noDir := f.root.ID(path.Dir(t.Object))
	switch {
	case form == bootargs.FormOwn && noDir != nil:
		return bare, nil //nolint:nilerr // that is an answer
	case noDir != nil:
		return "", fmt.Errorf("%w: %w", ErrHidden, err)
	case isVariable(t):
		return none, nil
	case form == bootargs.FormOwn, form == bootargs.FormTrial, form == bootargs.FormPart:
		return absent, nil
	}
	return "", fmt.Errorf("%w: %w", apply.ErrGone, err)
}

// isVariable reports whether an EFI variable names the next entry.
func isVariable(t plan.Target) bool {
	f, _ := aim(t)
	return f == next && path.Base(t.Object) != "grubenv"
}

// isLoaded reports whether the boot loader itself reads a file.
func isLoaded(t plan.Target) bool {
	switch form, _ := aim(t); form {
	case menu, bootargs.FormTrial, bootargs.FormPart, bootargs.FormEntry, bootargs.FormLabels:
		return true
	case next:
		return !isVariable(t)
	case bootargs.FormOwn, bootargs.FormPlain: // update-grub and the packages of kernels read them
	}
	return false
}

// chosen returns the next entry.
func chosen(t plan.Target, data []byte) (plan.Value, error) {
	if isVariable(t) {
		if id := strings.TrimSuffix(bootargs.Variable(data), ".conf"); id != "" {
			return plan.Value(id), nil
		}
		return none, nil
	}
	block, err := bootargs.ReadEnv(data)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", t.Object, err)
	}
	switch id, is := block.Get(bootargs.NextEntry); {
	case !is:
		return none, nil
	case id == "":
		return cleared, nil
	default:
		return plan.Value(id), nil
	}
}

// Write writes the value of a change and reads it back.
func (f *files) Write(c plan.Change) (plan.Value, error) {
	name, err := f.resolve(c.Object)
	if err != nil {
		return "", err
	}
	d, err := f.dir(path.Dir(name), c.Value != absent && c.Value != bare)
	if err != nil {
		return "", err
	}
	defer d.Close()
	err = f.write(d, name, c)
	if err == nil && f.root.Path() == "/" && isLoaded(c.Target) { // another root is unmounted before it boots
		err = hostwrite.InPlace(d)
	}
	if err != nil {
		return "", err
	}
	f.call.Written(c.Target)
	effective, _, err := f.Read(c.Target)
	if err != nil {
		return "", err
	}
	if !same(c.Target, effective, c.Value) && c.Value != bare { // others may have files there by now
		return effective, fmt.Errorf("wrote %s, it has %s: %w", Shown(c.Value), Shown(effective), apply.ErrNotEffective)
	}
	return effective, nil
}

// mostLinks is the longest chain of symbolic links that resolve follows.
const mostLinks = 8

// resolve follows symbolic links, so that a write replaces the file and not the link.
func (f *files) resolve(name string) (string, error) {
	root, err := f.root.Handle()
	if err != nil {
		return "", err
	}
	defer root.Close()
	at := name
	for range mostLinks {
		link, err := root.Readlink(strings.TrimPrefix(at, "/"))
		if err != nil {
			return at, nil // it is not a link
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(at), link)
		}
		at = path.Clean(link)
	}
	return "", fmt.Errorf("%s: more than %d links", name, mostLinks)
}

// dir opens a directory. If makes is true, it creates a missing one.
func (f *files) dir(name string, makes bool) (*hostfs.Dir, error) {
	d, err := f.root.Dir(name)
	if errors.Is(err, fs.ErrNotExist) && makes {
		if err := hostwrite.MakeDir(f.root, name); err != nil {
			return nil, err
		}
		return f.root.Dir(name)
	}
	return d, err
}

// write writes the value of a change to a file in the directory d.
func (f *files) write(d *hostfs.Dir, file string, c plan.Change) error {
	form, _ := aim(c.Target)
	name := path.Base(file)
	switch {
	case form == menu:
		return f.generated(d, file, c)
	case isVariable(c.Target) && c.Value == none:
		return hostwrite.Variable(d, name, nil)
	case isVariable(c.Target):
		return hostwrite.Variable(d, name, bootargs.NewVariable(string(c.Value)+".conf"))
	case form == next:
		return choose(d, name, c.Value)
	}
	text, there := unquoted(c.Value)
	if there {
		return hostwrite.Replace(d, name, text)
	}
	err := errors.Join(hostwrite.Clear(d, name), hostwrite.Remove(d, name))
	if err == nil && c.Value == bare {
		_ = hostwrite.RemoveDir(f.root, path.Dir(c.Object)) // others may have files there by now
	}
	return err
}

// choose writes the next entry into GRUB's environment block.
func choose(d *hostfs.Dir, name string, v plan.Value) error {
	data, err := d.ReadFile(name)
	if err != nil {
		return err
	}
	block, err := bootargs.ReadEnv(data)
	if err != nil {
		return fmt.Errorf("read %s/%s: %w", d.Path(), name, err)
	}
	switch v {
	case none:
		block = block.With(bootargs.NextEntry, "")
	case cleared:
		block = block.Cleared(bootargs.NextEntry)
	default:
		block = block.With(bootargs.NextEntry, string(v))
	}
	data, err = block.Block()
	if err != nil {
		return fmt.Errorf("write %s/%s: %w", d.Path(), name, err)
	}
	return hostwrite.Replace(d, name, string(data))
}

// generated makes GRUB's configuration again beside the present file, and replaces that file if the new one fits.
func (f *files) generated(d *hostfs.Dir, file string, c plan.Change) error {
	name := path.Base(file)
	aside := path.Join(path.Dir(file), hostwrite.Aside(name))
	err := f.generate(aside)
	if err == nil {
		err = f.fits(d, name, c)
	}
	if err != nil {
		return errors.Join(err, hostwrite.Clear(d, name))
	}
	return hostwrite.TakeOver(d, name)
}

// fits returns an error if the new configuration must not replace the present one: its arguments differ from the
// desired ones, or the machine could no longer boot what it boots now.
func (f *files) fits(d *hostfs.Dir, name string, c plan.Change) error {
	made, err := d.ReadFile(hostwrite.Aside(name))
	if err != nil {
		return err
	}
	_, tokens := aim(c.Target)
	standing := bootargs.Standing(string(made), tokens)
	if standing != string(c.Value) && (standing != "" || c.Value != none) {
		return fmt.Errorf("the entries that update-grub makes have %q, want %q: %w", standing, c.Value, apply.ErrNotEffective)
	}
	now, err := d.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if lost := bootargs.Lost(f.root.FS(), string(now), string(made)); lost != "" {
		return fmt.Errorf("update-grub makes %s: is /boot mounted? %w", lost, apply.ErrNotEffective)
	}
	return nil
}

// Attainable implements apply.Attainer. A file that Berth did not create and that was changed since is restored
// argument by argument.
func (f *files) Attainable(t plan.Target, v plan.Value) (write, stands plan.Value) {
	form, _ := aim(t)
	switch form {
	case bootargs.FormEntry, bootargs.FormLabels, bootargs.FormPlain, bootargs.FormPart:
	default:
		return v, v
	}
	now, err := f.root.ReadFile(t.Object)
	if err != nil {
		return v, v
	}
	v = back(t, v, string(now))
	return v, v
}

// Note implements apply.SideEffects: a write has no side effect.
func (f *files) Note(plan.Target) error { return nil }

// GiveBack removes the temporary file that an interrupted write left.
func (f *files) GiveBack(t plan.Target) {
	name, err := f.resolve(t.Object)
	if err != nil {
		return
	}
	if d, err := f.root.Dir(path.Dir(name)); err == nil {
		_ = hostwrite.Clear(d, path.Base(name)) // the next write removes it, too
		_ = d.Close()
	}
}

// Locate implements apply.Locator.
func (f *files) Locate(t plan.Target, _ plan.Value) string { return f.root.Join(t.Object) }

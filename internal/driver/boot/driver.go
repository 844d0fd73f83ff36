package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/bootargs"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/process"
)

// ErrHidden says that a file may exist although it cannot be seen from here.
var ErrHidden = errors.New("its directory is not there: is the partition mounted?")

// ErrElsewhere says that update-grub makes the configuration of the running host only, and of no
// directory.
var ErrElsewhere = errors.New("update-grub works on the running host only")

// updateGRUB is Debian's program, and patience how long it may take: it may look for other systems
// on all disks.
const (
	updateGRUB = "/usr/sbin/update-grub"
	patience   = 5 * time.Minute
)

// Generate has GRUB's configuration made into a file, which is named relative to the root.
type Generate func(file string) error

// UpdateGRUB runs update-grub, which hands its arguments on to grub-mkconfig.
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
	return apply.Kinds{Driver: {Kind: Values()[Driver], Opener: &opener{root, generate}}}
}

type opener struct {
	root     *hostfs.Root
	generate Generate
}

// Open returns a driver for one call.
func (o *opener) Open(call apply.Call) apply.Driver { return &files{o.root, o.generate, call} }

// files is the driver.
type files struct {
	root     *hostfs.Root
	generate Generate
	call     apply.Call
}

// Read returns the value of a target. Its identity is its name: a file that was replaced is the
// same one. Of an entry that is gone, as with its kernel, nothing is left to put back.
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

// missing is the value of a file that is not there. Where its directory is missing, too, only a
// file of Berth's own is known not to be there: the partition of the others may not be mounted.
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

// isVariable says that the next entry is named by a variable of EFI.
func isVariable(t plan.Target) bool {
	f, _ := aim(t)
	return f == next && path.Base(t.Object) != "grubenv"
}

// chosen is the next entry.
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
	if err := f.write(d, name, c); err != nil {
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

// mostLinks bounds how often a link leads to another one.
const mostLinks = 8

// resolve returns the file that a name leads to: what a link names is replaced, not the link.
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
			return at, nil // it is no link
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(at), link)
		}
		at = path.Clean(link)
	}
	return "", fmt.Errorf("%s: more than %d links", name, mostLinks)
}

// dir opens a directory, and makes it where it is missing.
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

// write writes what the value says to a file, which is in the directory.
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

// choose names the next entry in GRUB's block.
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

// generated has the configuration made anew beside the one that stands, and puts it in its place if
// it has what it is to have.
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

// fits says why the configuration that was made cannot take the place of the one that stands: its
// arguments are others, or the machine would not boot what it boots now.
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

// Attainable is apply.Attainer: a file of others that was changed since is put back by token.
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

// Note is apply.SideEffects: nothing else is lost by a write.
func (f *files) Note(plan.Target) error { return nil }

// GiveBack removes what a write that died left beside a file.
func (f *files) GiveBack(t plan.Target) {
	name, err := f.resolve(t.Object)
	if err != nil {
		return
	}
	if d, err := f.root.Dir(path.Dir(name)); err == nil {
		_ = hostwrite.Clear(d, path.Base(name)) // the next write does it, too
		_ = d.Close()
	}
}

// Locate is apply.Locator.
func (f *files) Locate(t plan.Target, _ plan.Value) string { return f.root.Join(t.Object) }

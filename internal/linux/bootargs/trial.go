package bootargs

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Trial is how a single boot can have arguments.
type Trial struct {
	// Way is grubenv, efi, or "" if there is none.
	Way string `json:"way"`
	// Why says why there is none: then only --no-trial is possible.
	Why string `json:"why"`
	// Entry is the file with the entry that boots once. Mark is the file that selects the entry for that boot.
	Entry File   `json:"-"`
	Mark  string `json:"-"`
	// Kernel is the kernel that the entry boots.
	Kernel string `json:"-"`
}

// The ways in which a loader accepts an entry for one boot.
const (
	ByGRUBEnv = "grubenv" // next_entry in grub's environment block
	ByEFI     = "efi"     // the EFI variable LoaderEntryOneShot
)

// trial returns how the loader accepts an entry for one boot, and makes that entry.
func (t *tree) trial(l Loader, want []string) Trial {
	way := t.way(l)
	if way.Way == "" {
		return way
	}
	var why string
	if l == GRUB {
		way.Entry, way.Kernel, why = t.menuTrial(want)
	} else {
		way.Entry, way.Kernel, why = t.entryTrial(want)
	}
	if why != "" {
		return Trial{Why: why}
	}
	return way
}

// way returns how the loader accepts an entry for one boot. The loader itself has to remove the choice before it starts
// the kernel: otherwise a kernel that does not come up is started again and again. GRUB can do so on plain partitions
// only, systemd-boot with variables that the firmware stores.
func (t *tree) way(l Loader) Trial {
	switch l {
	case GRUB:
		return t.environment(GRUBConfig)
	case BLS:
		return t.environment(grub2Config)
	case SystemdBoot:
		if why := t.withoutOneShot(); why != "" {
			return Trial{Why: why}
		}
		return Trial{Way: ByEFI, Mark: oneShot}
	case Extlinux:
	}
	return Trial{Why: string(l) + " takes no entry for one boot"}
}

// environment checks whether GRUB reads from its block which entry boots once.
func (t *tree) environment(config string) Trial {
	dir := path.Dir(config)
	block := dir + "/grubenv"
	if !t.exists(block) {
		return Trial{Why: "there is no /" + block}
	}
	env, err := ReadEnv([]byte(t.text(block)))
	if err == nil {
		_, err = env.With(NextEntry, TrialID).Block()
	}
	if err != nil {
		return Trial{Why: "/" + block + ": " + err.Error()}
	}
	if why := t.unwritable("/" + dir); why != "" {
		return Trial{Why: "grub cannot write /" + block + ": " + why}
	}
	switch menu := t.text(config); {
	case !strings.Contains(menu, NextEntry):
		return Trial{Why: "/" + config + " does not look at " + NextEntry}
	case !regexp.MustCompile(`(?m)^[ \t]*save_env\b[^#\n]*\b` + NextEntry + `\b`).MatchString(menu):
		return Trial{Why: "/" + config + " does not remove " + NextEntry + ": each boot would be the trial"}
	}
	return Trial{Way: ByGRUBEnv, Mark: block}
}

// withoutOneShot returns why systemd-boot would not boot an entry once, "" if it would. A kernel without EFI runtime
// services (efi=noruntime, and the default of real-time kernels) has the directory of the variables, and nothing in it.
// It mounts them read-only if the firmware accepts no change.
func (t *tree) withoutOneShot() string {
	m := t.mount("/" + variables)
	switch {
	case m == nil || m.Mountpoint != "/"+variables || m.FSType != "efivarfs":
		return "the EFI variables are not mounted at /" + variables + ": the kernel has no access to them (efi=noruntime?)"
	case isReadOnly(m.Options) || isReadOnly(m.VFSOptions):
		return "the EFI variables in /" + variables + " are read-only"
	}
	if by := Variable([]byte(t.text(loaderInfo))); !strings.HasPrefix(by, "systemd-boot") {
		return fmt.Sprintf("the running kernel was not booted by systemd-boot: /%s is %q", loaderInfo, by)
	}
	return ""
}

// isReadOnly reports whether the options of a mount say so.
func isReadOnly(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }

// inPlace reports whether grub can write to a file of a file system: in place to its blocks, which have neither
// checksum nor log.
func inPlace(fileSystem string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "vfat", "msdos"}, fileSystem)
}

// mount returns the mount that a directory is on, nil if it is not known. For mounts on the same directory, the kernel
// lists the topmost last.
func (t *tree) mount(dir string) *mountinfo.Info {
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(t.text("proc/self/mountinfo")), mountinfo.ParentsFilter(dir))
	if err != nil || len(mounts) == 0 {
		return nil
	}
	slices.Reverse(mounts)
	return slices.MaxFunc(mounts, func(a, b *mountinfo.Info) int { return len(a.Mountpoint) - len(b.Mountpoint) })
}

// unwritable returns why grub cannot write to the file system of a directory.
func (t *tree) unwritable(dir string) string {
	m := t.mount(dir)
	if m == nil {
		return "its file system is not known"
	}
	device := fmt.Sprintf("sys/dev/block/%d:%d/", m.Major, m.Minor)
	switch {
	case !inPlace(m.FSType):
		return "it is on " + m.FSType
	case t.exists(device + "dm"), strings.HasPrefix(m.Source, "/dev/mapper/"), strings.HasPrefix(m.Source, "/dev/dm-"):
		return m.Source + " is a logical or encrypted volume"
	case t.exists(device + "md"), strings.HasPrefix(m.Source, "/dev/md"): // a partition of a RAID has only the name
		return m.Source + " is a RAID"
	}
	return ""
}

// ErrEnv means that a file is not an environment block of grub.
var ErrEnv = errors.New("no environment block of grub")

const (
	envSize   = 1024
	envHeader = "# GRUB Environment Block\n"
)

// Env is grub's environment block: lines name=value, padded with #.
type Env struct{ lines []string }

// ReadEnv reads an environment block. The error is ErrEnv.
func ReadEnv(block []byte) (Env, error) {
	rest, is := bytes.CutPrefix(block, []byte(envHeader))
	if !is || len(block) != envSize {
		return Env{}, fmt.Errorf("%w: %d bytes, and it has to begin with %q and have %d", ErrEnv, len(block), envHeader, envSize)
	}
	var e Env
	for line := range strings.Lines(strings.TrimRight(string(rest), "#")) {
		if !strings.HasSuffix(line, "\n") {
			return Env{}, fmt.Errorf("%w: %q has no end", ErrEnv, line)
		}
		e.lines = append(e.lines, strings.TrimSuffix(line, "\n"))
	}
	return e, nil
}

// Get returns the value of a name.
func (e Env) Get(name string) (string, bool) {
	for _, line := range e.lines {
		if value, is := strings.CutPrefix(line, name+"="); is {
			return value, true
		}
	}
	return "", false
}

// With returns the block with a value; "" removes the line of the name.
func (e Env) With(name, value string) Env {
	if value == "" {
		next := slices.Clone(e.lines)
		return Env{slices.DeleteFunc(next, func(line string) bool { return strings.HasPrefix(line, name+"=") })}
	}
	return e.line(name, value)
}

// Cleared returns the block with the name and an empty value.
func (e Env) Cleared(name string) Env { return e.line(name, "") }

func (e Env) line(name, value string) Env {
	next := Env{lines: slices.Clone(e.lines)}
	at := slices.IndexFunc(next.lines, func(line string) bool { return strings.HasPrefix(line, name+"=") })
	if at < 0 {
		at = len(next.lines)
		next.lines = append(next.lines, "")
	}
	next.lines[at] = name + "=" + value
	return next
}

// Block returns the bytes of the block. The error is ErrEnv if it is too long.
func (e Env) Block() ([]byte, error) {
	text := envHeader
	if len(e.lines) > 0 {
		text += strings.Join(e.lines, "\n") + "\n"
	}
	if len(text) > envSize {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrEnv, len(text), envSize)
	}
	return []byte(text + strings.Repeat("#", envSize-len(text))), nil
}

package bootargs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Trial is how one boot alone can have arguments.
type Trial struct {
	// Way is grubenv, efi, or "" where there is none.
	Way string `json:"way"`
	// Why says why there is none: then only --no-trial is left.
	Why string `json:"why"`
}

// The ways in which a loader takes an entry for one boot.
const (
	ByGRUBEnv = "grubenv" // next_entry in grub's environment block
	ByEFI     = "efi"     // the EFI variable LoaderEntryOneShot
)

// trial says how the loader takes an entry for one boot. GRUB has to take the word out of its
// block before it boots, and writes to plain partitions only.
func (t *tree) trial(l Loader) Trial {
	switch l {
	case GRUB, BLS:
		dir := "boot/grub"
		if l == BLS {
			dir = "boot/grub2"
		}
		if !t.exists(dir + "/grubenv") {
			return Trial{Why: "there is no /" + dir + "/grubenv"}
		}
		if _, err := ReadEnv([]byte(t.text(dir + "/grubenv"))); err != nil {
			return Trial{Why: "/" + dir + "/grubenv: " + err.Error()}
		}
		if why := t.unwritable("/" + dir); why != "" {
			return Trial{Why: "grub cannot write /" + dir + "/grubenv: " + why}
		}
		return Trial{Way: ByGRUBEnv}
	case SystemdBoot:
		if !t.exists("sys/firmware/efi/efivars") {
			return Trial{Why: "the EFI variables cannot be seen in /sys/firmware/efi/efivars"}
		}
		return Trial{Way: ByEFI}
	case Extlinux:
	}
	return Trial{Why: string(l) + " takes no entry for one boot"}
}

// unwritable says why grub cannot write to the file system of a directory.
func (t *tree) unwritable(dir string) string {
	text := t.text("proc/self/mountinfo")
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(text), mountinfo.ParentsFilter(dir))
	if err != nil || len(mounts) == 0 {
		return "its file system is not known"
	}
	m := slices.MaxFunc(mounts, func(a, b *mountinfo.Info) int { return len(a.Mountpoint) - len(b.Mountpoint) })
	switch {
	case slices.Contains([]string{"btrfs", "zfs", "f2fs", "overlay", "nfs", "nfs4", "tmpfs"}, m.FSType):
		return "it is on " + m.FSType
	case strings.HasPrefix(m.Source, "/dev/mapper/"), strings.HasPrefix(m.Source, "/dev/dm-"):
		return m.Source + " is a logical or encrypted volume"
	case strings.HasPrefix(m.Source, "/dev/md"):
		return m.Source + " is a RAID"
	}
	return ""
}

// ErrEnv is a file that is no environment block of grub.
var ErrEnv = errors.New("no environment block of grub")

const (
	envSize   = 1024
	envHeader = "# GRUB Environment Block\n"
)

// Env is grub's environment block: lines name=value, filled up with #.
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

// With returns the block with a value, "" for no line of the name.
func (e Env) With(name, value string) Env {
	next := Env{lines: slices.Clone(e.lines)}
	at := slices.IndexFunc(next.lines, func(line string) bool { return strings.HasPrefix(line, name+"=") })
	switch {
	case value == "" && at >= 0:
		next.lines = slices.Delete(next.lines, at, at+1)
	case value == "":
	case at >= 0:
		next.lines[at] = name + "=" + value
	default:
		next.lines = append(next.lines, name+"="+value)
	}
	return next
}

// Block returns the block. One that is too long is ErrEnv.
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

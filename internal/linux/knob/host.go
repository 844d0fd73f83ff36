package knob

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"

	"github.com/berth-project/berth/internal/linux/kernel"
)

const (
	modesFile  = "modes"
	mountsFile = "proc/self/mountinfo"
	lockdown   = "sys/kernel/security/lockdown"
	release    = "proc/sys/kernel/osrelease"
	configGz   = "proc/config.gz"
	bootConfig = "boot/config-"
	// moduleDirs has a directory per kernel release. Fedora, and Debian since Linux 7.2, have the configuration in it.
	moduleDirs = "usr/lib/modules/"
	maxConfig  = 4 << 20
)

// access is what is known about a file before it is opened.
type access string

const (
	locked access = "locked" // EPERM at the open
	denied access = "denied" // EACCES at the open
	busy   access = "busy"   // EBUSY at the read
)

// Host reads the files of a host, or of a recorded tree. It is for one goroutine.
type Host struct {
	fsys fs.FS
	// held is the directory heldDir, open while its files are probed, so that their paths are short.
	held    fs.FS
	heldDir string
	// modes are the modes in a recording, nil on a host.
	modes  map[string]access
	mounts []*mountinfo.Info
	// Lockdown is the kernel's lockdown mode: none, integrity or confidentiality. It is "" if the mode is unknown.
	Lockdown string
	// HZ is the number of ticks per second, 0 if it is unknown.
	HZ int
	// Scheduled asks the running kernel how it schedules a thread, as kernel.ThreadScheduled does. If it is nil, as for
	// a recorded tree, the files of the thread are read. Not every kernel shows slices there.
	Scheduled func(tid int) (kernel.Scheduled, error)
	// config has the relevant lines of the kernel's configuration.
	config []string
}

// Open returns a Host for the files below fsys, which has proc and sys at its root. A missing file is no error: it
// makes knobs absent or unknown.
func Open(fsys fs.FS) *Host {
	h := &Host{fsys: fsys, modes: readModes(fsys)}
	if text, err := fs.ReadFile(fsys, mountsFile); err == nil {
		h.mounts, _ = mountinfo.GetMountsFromReader(bytes.NewReader(text), elsewhere) // else file modes decide
	}
	if text, err := fs.ReadFile(fsys, lockdown); err == nil {
		h.Lockdown, _ = choices(strings.TrimSpace(string(text)))
	}
	h.configure()
	return h
}

// elsewhere skips mounts that contain no knob.
func elsewhere(m *mountinfo.Info) (skip, stop bool) {
	ours := m.Mountpoint == "/" || strings.HasPrefix(m.Mountpoint, "/proc") || strings.HasPrefix(m.Mountpoint, "/sys")
	return !ours, false
}

// readModes reads the modes file of a recording.
func readModes(fsys fs.FS) map[string]access {
	text, err := fs.ReadFile(fsys, modesFile)
	if err != nil {
		return nil
	}
	modes := map[string]access{}
	for line := range strings.Lines(string(text)) {
		mode, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			modes[strings.TrimSpace(name)] = access(mode)
		}
	}
	return modes
}

// The relevant lines of the kernel's configuration.
const (
	configHZ       = "CONFIG_HZ="
	configRTGroups = "CONFIG_RT_GROUP_SCHED=y"
	configRTOff    = "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y"
)

// configure reads the running kernel's configuration.
func (h *Host) configure() {
	config, err := kernelConfig(h.fsys)
	if err != nil {
		return
	}
	for line := range bytes.Lines(config) {
		text := string(bytes.TrimSpace(line))
		hz, ticks := strings.CutPrefix(text, configHZ)
		if ticks {
			h.HZ, _ = strconv.Atoi(hz) // 0 is unknown
		}
		if ticks || text == configRTGroups || text == configRTOff {
			h.config = append(h.config, text)
		}
	}
}

// rtGroups reports whether groups have a budget for their real-time threads.
func (h *Host) rtGroups(cmdline []string) bool {
	const arg = "rt_group_sched="
	on := !slices.Contains(h.config, configRTOff)
	for _, a := range cmdline {
		if value, is := strings.CutPrefix(a, arg); is {
			on = value != "0"
		}
	}
	return on && slices.Contains(h.config, configRTGroups)
}

// kernelConfig returns the kernel's configuration as text.
func kernelConfig(fsys fs.FS) ([]byte, error) {
	name, err := fs.ReadFile(fsys, release)
	if err == nil {
		running := strings.TrimSpace(string(name))
		for _, file := range []string{bootConfig + running, moduleDirs + running + "/config"} {
			var text []byte
			if text, err = fs.ReadFile(fsys, file); err == nil {
				return text, nil
			}
		}
	}
	packed, errPacked := fs.ReadFile(fsys, configGz)
	if errPacked != nil {
		return nil, errors.Join(err, errPacked)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller goes without
	}
	return io.ReadAll(io.LimitReader(r, maxConfig)) //nolint:wrapcheck // the caller goes without
}

// hold opens the directory that contains the instances of a pattern, until the caller calls the returned function. It
// holds nothing below /sys/class, because links lead out of it. It also holds nothing in a tree without a Sub method:
// fs.Sub would bypass the tree's own methods.
func (h *Host) hold(pattern string) (release func()) {
	none := func() {}
	dir, _, many := strings.Cut(pattern, "*")
	tree, holds := h.fsys.(fs.SubFS)
	if !many || !holds || strings.HasPrefix(dir, "/sys/class/") {
		return none
	}
	sub, err := tree.Sub(local(path.Dir(dir)))
	if err != nil {
		return none
	}
	h.held, h.heldDir = sub, local(path.Dir(dir))+"/"
	return func() {
		if c, ok := sub.(io.Closer); ok {
			_ = c.Close() // nothing was written
		}
		h.held = nil
	}
}

// in returns the tree that contains a file, and the file's name in it.
func (h *Host) in(file string) (fs.FS, string) {
	if rest, inside := strings.CutPrefix(local(file), h.heldDir); inside && h.held != nil {
		return h.held, rest
	}
	return h.fsys, local(file)
}

// local converts a path of the host to a path below the root of the tree.
func local(file string) string { return strings.TrimPrefix(file, "/") }

// stat returns the mode of a file, and whether the file exists. An error means that both are unknown.
func (h *Host) stat(file string) (mode fs.FileMode, there bool, err error) {
	const usual = 0o644
	noted, is := h.modes[local(file)]
	if is {
		if mode, err := strconv.ParseUint(string(noted), 8, 9); err == nil {
			return fs.FileMode(mode), true, nil
		}
		return usual, true, nil
	}
	info, err := fs.Stat(h.in(file))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err //nolint:wrapcheck // its class is all that counts
	}
	if h.modes != nil {
		return usual, true, nil
	}
	return info.Mode(), true, nil
}

// names returns the names in a directory.
func (h *Host) names(dir string) []string {
	entries, err := fs.ReadDir(h.fsys, path.Clean(local(dir)))
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// text reads a file and trims white space.
func (h *Host) text(file string) (string, error) {
	switch h.modes[local(file)] {
	case locked:
		return "", syscall.EPERM
	case denied:
		return "", syscall.EACCES
	case busy:
		return "", syscall.EBUSY
	}
	text, err := fs.ReadFile(h.in(file))
	return strings.TrimSpace(string(text)), err
}

// mount returns the mount that contains a file, nil if none is known.
func (h *Host) mount(file string) *mountinfo.Info {
	var found *mountinfo.Info
	for _, m := range h.mounts {
		inside := m.Mountpoint == "/" || file == m.Mountpoint || strings.HasPrefix(file, m.Mountpoint+"/")
		if inside && (found == nil || len(m.Mountpoint) >= len(found.Mountpoint)) {
			found = m // the later of two mounts at one place applies
		}
	}
	return found
}

// readOnlyMount returns the mount point of a file's file system if it is mounted read-only, else "".
func (h *Host) readOnlyMount(file string) string {
	m := h.mount(file)
	if m == nil {
		return ""
	}
	for _, options := range []string{m.Options, m.VFSOptions} {
		for option := range strings.SplitSeq(options, ",") {
			if option == "ro" {
				return m.Mountpoint
			}
		}
	}
	return ""
}

// debugfsMounted reports whether debugfs is mounted at its usual place. known reports whether any mounts are known.
func (h *Host) debugfsMounted() (mounted, known bool) {
	m := h.mount(debugfs + "/")
	return m != nil && m.FSType == "debugfs", len(h.mounts) > 0
}

// Text returns the text of a file of the host, "" if it cannot be read.
func (h *Host) Text(file string) string {
	text, _ := h.text(file) // an unreadable file is unknown
	return text
}

// Texts returns the texts of the host's files that match a pattern, by path.
func (h *Host) Texts(pattern string) map[string]string {
	all := map[string]string{}
	found, _ := h.expand(Place{File: pattern}) // files that cannot be seen are unknown
	for _, f := range found {
		all[f.File] = h.Text(f.File)
	}
	return all
}

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
)

const (
	modesFile  = "modes"
	mountsFile = "proc/self/mountinfo"
	lockdown   = "sys/kernel/security/lockdown"
	release    = "proc/sys/kernel/osrelease"
	configGz   = "proc/config.gz"
	bootConfig = "boot/config-"
	maxConfig  = 4 << 20
)

// access is what is known of a file before it is opened.
type access string

const (
	locked access = "locked" // EPERM at the open
	denied access = "denied" // EACCES at the open
	busy   access = "busy"   // EBUSY at the read
)

// Host is a host's files, or those of a recorded tree. It is for one goroutine.
type Host struct {
	fsys fs.FS
	// held is the directory heldDir while its files are probed: the way to them is short.
	held    fs.FS
	heldDir string
	// modes are those that a recording notes, nil on a host.
	modes  map[string]access
	mounts []*mountinfo.Info
	// Lockdown is the kernel's lockdown mode: none, integrity, confidentiality, or "" where
	// nothing says it.
	Lockdown string
	// HZ is how many ticks a second has, 0 where nothing says it.
	HZ int
	// config has the lines of the kernel's configuration that count.
	config []string
}

// Open looks at the files below fsys, which has proc and sys at its root. What is missing
// makes knobs absent or unknown, and is no error.
func Open(fsys fs.FS) *Host {
	h := &Host{fsys: fsys, modes: readModes(fsys)}
	if text, err := fs.ReadFile(fsys, mountsFile); err == nil {
		h.mounts, _ = mountinfo.GetMountsFromReader(bytes.NewReader(text), elsewhere) // without them the files' modes decide
	}
	if text, err := fs.ReadFile(fsys, lockdown); err == nil {
		h.Lockdown, _ = choices(strings.TrimSpace(string(text)))
	}
	h.configure()
	return h
}

// elsewhere leaves out mounts that no knob is in.
func elsewhere(m *mountinfo.Info) (skip, stop bool) {
	ours := m.Mountpoint == "/" || strings.HasPrefix(m.Mountpoint, "/proc") || strings.HasPrefix(m.Mountpoint, "/sys")
	return !ours, false
}

// readModes reads the file that a recording has.
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

// What counts of the kernel's configuration.
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

// rtGroups says whether groups have a budget for their real-time threads.
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
		var text []byte
		if text, err = fs.ReadFile(fsys, bootConfig+strings.TrimSpace(string(name))); err == nil {
			return text, nil
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

// hold opens the directory in which the instances of a pattern are, until the function that
// it returns is called. Links lead out of /sys/class: there nothing is held. A tree that has
// no directories to hold would be read past its own methods.
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

// in returns the tree in which a file is looked up, and its name there.
func (h *Host) in(file string) (fs.FS, string) {
	if rest, inside := strings.CutPrefix(local(file), h.heldDir); inside && h.held != nil {
		return h.held, rest
	}
	return h.fsys, local(file)
}

// local turns a path of the host into one below the root of the tree.
func local(file string) string { return strings.TrimPrefix(file, "/") }

// stat returns the mode of a file, and whether it is there; an error says that this cannot
// be known.
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

// names lists a directory.
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

// text reads a file, trimmed.
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

// mount returns the mount that a file is in, nil where none is known.
func (h *Host) mount(file string) *mountinfo.Info {
	var found *mountinfo.Info
	for _, m := range h.mounts {
		inside := m.Mountpoint == "/" || file == m.Mountpoint || strings.HasPrefix(file, m.Mountpoint+"/")
		if inside && (found == nil || len(m.Mountpoint) >= len(found.Mountpoint)) {
			found = m // of two at one place the later one counts
		}
	}
	return found
}

// readOnlyMount returns where a file's file system is mounted for reading only, "" where it
// is not.
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

// debugfsMounted says whether debugfs is where it belongs; known is whether the mounts are.
func (h *Host) debugfsMounted() (mounted, known bool) {
	m := h.mount(debugfs + "/")
	return m != nil && m.FSType == "debugfs", len(h.mounts) > 0
}

// Text returns the text of a file of the host, "" where it cannot be read.
func (h *Host) Text(file string) string {
	text, _ := h.text(file) // what cannot be read is not known
	return text
}

// Texts returns the texts of the files of the host that a pattern names, by their paths.
func (h *Host) Texts(pattern string) map[string]string {
	all := map[string]string{}
	found, _ := h.expand(Place{File: pattern}) // what cannot be seen is not known
	for _, f := range found {
		all[f.File] = h.Text(f.File)
	}
	return all
}

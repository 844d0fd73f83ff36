package knob

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// Record returns the files below fsys that the catalogue reads, by path, and the modes file. Probe has the same result
// on the recorded tree as on fsys. The tree has only the mounts and the kernel configuration that Open needs.
func Record(fsys fs.FS) map[string][]byte {
	log := &reads{fsys: fsys, files: map[string][]byte{}, modes: map[string]access{}, there: map[string]bool{}}
	h := Open(log)
	maps.Copy(log.modes, h.modes) // if fsys is a recording itself
	for _, k := range Catalogue() {
		h.Probe(k)
	}
	for _, m := range MovedSysctls() {
		h.Elsewhere(m)
		if k, ok := Lookup(Prefix + m.Sysctl); ok {
			h.Probe(k)
		}
	}
	delete(log.files, configGz)
	delete(log.files, modesFile)
	if name, found := log.files[release]; found && len(h.config) > 0 {
		log.files[bootConfig+strings.TrimSpace(string(name))] = []byte(strings.Join(h.config, "\n") + "\n")
	}
	var modes bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(log.modes)) {
		fmt.Fprintf(&modes, "%s %s\n", log.modes[name], name)
	}
	log.files[modesFile] = modes.Bytes()
	for name := range log.there {
		if _, kept := log.files[name]; !kept && !log.holds(name) {
			log.files[name] = nil // only its existence matters
		}
	}
	return log.files
}

// reads records the files that are read through it. It is for one goroutine.
type reads struct {
	fsys  fs.FS
	files map[string][]byte
	modes map[string]access
	// there are the files and directories that Stat found.
	there map[string]bool
}

// holds reports whether a recorded file is below a directory.
func (r *reads) holds(dir string) bool {
	for name := range r.files {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// Open is required by fs.FS. Host does not use it.
func (r *reads) Open(name string) (fs.File, error) {
	return r.fsys.Open(name) //nolint:wrapcheck // a file system hands its errors on
}

// ReadDir lists a directory.
func (r *reads) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(r.fsys, name) //nolint:wrapcheck // a file system hands its errors on
}

// Stat records that a file exists, its mode if nobody may write it, and a refused access.
func (r *reads) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(r.fsys, name)
	if err != nil {
		r.refused(name, err)
		return nil, err //nolint:wrapcheck // a file system hands its errors on
	}
	if !slices.Contains([]string{"sys", "proc", local(sysctls)}, name) { // the recording has files below them
		r.there[name] = true
	}
	if mode := info.Mode().Perm(); info.Mode().IsRegular() && mode&0o222 == 0 && r.modes[name] == "" {
		r.modes[name] = access(fmt.Sprintf("%04o", mode))
	}
	return info, nil
}

// ReadFile reads and records a file.
func (r *reads) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(r.fsys, name)
	if err != nil {
		r.refused(name, err)
		return nil, err //nolint:wrapcheck // a file system hands its errors on
	}
	kept := content
	switch {
	case name == mountsFile:
		kept = kernelMounts(content)
	case name == local(schedDebug):
		kept = schedulerSettings(content)
	case strings.HasPrefix(name, bootConfig), strings.HasPrefix(name, moduleDirs):
		return content, nil // Record adds the relevant lines
	}
	r.files[name] = bytes.TrimRight(kept, "\n\x00")
	return content, nil
}

// refused records a file that exists and cannot be opened or read.
func (r *reads) refused(name string, err error) {
	switch {
	case errors.Is(err, syscall.EPERM):
		r.modes[name] = locked
	case errors.Is(err, syscall.EACCES):
		r.modes[name] = denied
	case errors.Is(err, syscall.EBUSY):
		r.modes[name] = busy
	}
}

// schedulerSettings returns the lines of sched/debug that show settings. The file also lists all threads of the host
// with their names.
func schedulerSettings(debug []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(debug) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte(".sysctl_sched_")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// kernelMounts returns the lines of mounts below /proc and /sys, without control groups.
func kernelMounts(mounts []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(mounts) {
		fields := strings.Fields(string(line))
		if len(fields) > 4 && (strings.HasPrefix(fields[4], "/proc") || strings.HasPrefix(fields[4], "/sys")) && !strings.HasPrefix(fields[4], "/sys/fs/") {
			kept = append(kept, line...)
		}
	}
	return kept
}

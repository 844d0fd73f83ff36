package knob

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Support says whether a host has a knob, and whether the knob can be set.
type Support string

// The kinds of support; the package comment explains them.
const (
	Settable Support = "settable"
	ReadOnly Support = "readOnly"
	Absent   Support = "absent"
	Unknown  Support = "unknown"
)

// Found is one file of a knob on a host, or the reason why there is none.
type Found struct {
	// Instance is the part of the host that the file is for, such as cpu3. It is empty if there is only one file.
	Instance string
	// File is the path on the host, empty if there is no file.
	File    string
	Place   Place
	Support Support
	// Now is the value in the words of users, empty if it cannot be read.
	Now string
	// Allowed are the words that the host accepts, if it lists them.
	Allowed []string
	// Fixed is true if no user can set the value, or restore it: the kernel has the file for reading only, or for
	// writing only.
	Fixed bool
	// Dormant is true if all CPUs of the file's frequency policy are offline. The kernel shows and accepts no value
	// until one of these CPUs is online.
	Dormant bool
	// Loss states what a write of any value would change elsewhere that undo cannot restore. LossOf states it for one
	// value.
	Loss string
	// Why says what prevents setting the knob.
	Why string
}

// Probe finds the files of a knob on the host. It returns at least one Found: if the knob has no file, the Found says
// why.
func (h *Host) Probe(k Knob) []Found {
	var missing Found
	var all []Found
	for i, p := range k.Places {
		release := h.hold(p.File)
		found, err := h.expand(p)
		for _, one := range found {
			all = append(all, h.look(k, p, one))
		}
		release()
		if len(all) > 0 {
			return h.withWords(k, all)
		}
		if one := h.missing(p, err); i == 0 || one.Support == Unknown {
			missing = one
		}
	}
	return []Found{missing}
}

// entry is an existing file with its mode.
type entry struct {
	Found
	mode fs.FileMode
}

// expand returns the existing files of a place.
func (h *Host) expand(p Place) ([]entry, error) {
	if !strings.Contains(p.File, "*") {
		mode, there, err := h.stat(p.File)
		if !there {
			return nil, err
		}
		return []entry{{Found{File: p.File}, mode}}, nil
	}
	all := []Found{{}}
	for part := range strings.SplitSeq(strings.TrimPrefix(p.File, "/"), "/") {
		all = h.below(all, part)
	}
	var there []entry
	for _, f := range all {
		mode, ok, err := h.stat(f.File)
		if err == nil && ok && h.counts(p, f.File) {
			there = append(there, entry{f, mode})
		}
	}
	slices.SortFunc(there, func(a, b entry) int { // cpu9 before cpu10
		return cmp.Or(cmp.Compare(len(a.Instance), len(b.Instance)), strings.Compare(a.Instance, b.Instance))
	})
	return there, nil
}

// below extends each directory by one path element, which may be a pattern.
func (h *Host) below(dirs []Found, part string) []Found {
	var next []Found
	for _, f := range dirs {
		if !strings.Contains(part, "*") {
			next = append(next, Found{Instance: f.Instance, File: f.File + "/" + part})
			continue
		}
		for _, name := range h.names(f.File + "/") {
			if fits, err := path.Match(part, name); err == nil && fits {
				next = append(next, Found{Instance: strings.TrimPrefix(f.Instance+"/"+name, "/"), File: f.File + "/" + name})
			}
		}
	}
	return next
}

// counts reports whether an instance also has the file that Place.Only requires.
func (h *Host) counts(p Place, file string) bool {
	if p.Only == "" {
		return true
	}
	needed, parts := strings.Split(p.Only, "/"), strings.Split(file, "/")
	for i := range needed {
		if strings.Contains(needed[i], "*") && i < len(parts) {
			needed[i] = parts[i]
		}
	}
	return h.There(strings.Join(needed, "/"))
}

// look reads one file and decides whether it can be set.
func (h *Host) look(k Knob, p Place, at entry) Found {
	f := at.Found
	f.Place, f.Support, f.Loss = p, Settable, h.loss(f.File)
	read := f.File
	if p.Now != "" {
		if beside := path.Join(path.Dir(f.File), p.Now); h.There(beside) {
			read = beside
		}
	}
	text, err := h.awake(read)
	switch {
	case err == nil:
		f.Now = k.read(p, text)
	case errors.Is(err, syscall.EBUSY) && InPolicy(f.File):
		f.Support, f.Dormant, f.Why = ReadOnly, true, "its CPUs are offline"
		return f
	case strings.HasPrefix(f.File, debugfs) && errors.Is(err, syscall.EPERM):
		f.Support, f.Now = ReadOnly, h.shown(p)
		f.Why = "kernel lockdown closes the files of debugfs"
		return f
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		f.Support, f.Why = Unknown, "this user may not read it: run it as root"
		if at.mode&0o444 == 0 {
			f.Fixed, f.Why = true, "the kernel has the file for writing only, so that nothing could be put back"
		}
		return f
	}
	if dir := h.readOnlyMount(f.File); dir != "" {
		f.Support, f.Why = ReadOnly, dir+" is mounted for reading only, as in a container: run it on the host"
	} else if at.mode&0o222 == 0 {
		f.Support, f.Fixed, f.Why = ReadOnly, true, "the kernel has the file for reading only"
		if k.Phase == Interrupts {
			f.Why = "the kernel manages this interrupt itself: fewer queues of the device, or isolcpus=managed_irq at boot"
		}
	}
	return f
}

// awake reads a file and trims white space. For a frequency policy without online CPUs the error is EBUSY, even if the
// kernel still shows a value.
func (h *Host) awake(file string) (string, error) {
	text, err := h.text(file)
	if err != nil || !InPolicy(file) {
		return text, err
	}
	if cpus, err := h.text(path.Join(path.Dir(file), PolicyCPUs)); err == nil && cpus == "" {
		return "", syscall.EBUSY
	}
	return text, nil // the policy's CPUs may be unknown
}

// Effective returns the CPUs that the host uses as the result of a found file, "" if the host does not show them.
func (h *Host) Effective(k Knob, f Found) string {
	if f.Place.Effective == "" {
		return ""
	}
	at := f.Place
	at.Mask = at.Mask && at.Effective == path.Base(at.File)
	text, err := h.text(path.Join(path.Dir(f.File), at.Effective))
	if err != nil {
		return ""
	}
	return k.read(at, text)
}

// There reports whether the host has a file.
func (h *Host) There(file string) bool {
	_, there, err := h.stat(file)
	return err == nil && there
}

// withWords adds the words that the files accept, from the first file that is not dormant or from a file beside it. A
// kernel accepts the same words for every instance.
func (h *Host) withWords(k Knob, all []Found) []Found {
	if k.Unit != Choice || k.Words != nil {
		return all
	}
	one := all[max(0, slices.IndexFunc(all, func(f Found) bool { return !f.Dormant }))]
	_, words := choices(h.Text(one.File))
	if beside := one.Place.Allowed; beside != "" {
		words = strings.Fields(h.Text(path.Join(path.Dir(one.File), beside)))
	}
	for n := range all {
		all[n].Allowed = words
	}
	return all
}

// shown reads the value from the file that shows it, "" if there is none.
func (h *Host) shown(p Place) string {
	if p.Shown == nil {
		return ""
	}
	if n, found := p.Shown.Read(h.Text(p.Shown.File)); found {
		return Span(n)
	}
	return ""
}

// missing decides, for a place without files, whether the host lacks it or only hides it.
func (h *Host) missing(p Place, err error) Found {
	mounted, known := h.debugfsMounted()
	inDebugfs := strings.HasPrefix(p.File, debugfs)
	switch {
	case err != nil:
		return Found{Support: Unknown, Why: p.File + " is not visible to this user: run it as root"}
	case inDebugfs && known && !mounted:
		return Found{Support: Unknown, Why: "debugfs is not mounted at " + debugfs + ", and Berth mounts nothing"}
	case inDebugfs && !h.There(sched) && !mounted:
		return Found{Support: Unknown, Why: debugfs + " is not in this tree"}
	case !h.There(subsystem(p.File)):
		return Found{Support: Unknown, Why: subsystem(p.File) + " is not visible from here"}
	}
	return Found{Support: Absent, Why: "this host has no " + p.File}
}

// subsystem returns the directory above a file that every kernel has.
func subsystem(file string) string {
	for _, dir := range []string{sysctls, "/proc"} {
		if strings.HasPrefix(file, dir+"/") {
			return dir
		}
	}
	return "/sys"
}

// Survey lists the files of some knobs on a host, by the knob's name.
type Survey map[string][]Found

// Survey probes the knobs with these names. It omits unknown names.
func (h *Host) Survey(names []string) Survey {
	s := Survey{}
	for _, name := range names {
		if k, ok := Lookup(name); ok && s[name] == nil {
			s[name] = h.Probe(k)
		}
	}
	return s
}

// Elsewhere is the place where a host has the value of a sysctl that its kernel does not have.
type Elsewhere struct {
	// Found is the file of a knob, or a file without a knob. Place and Now are empty if the host has no such file.
	Found
	// Text says where the value is, or what to do instead if the host does not have it.
	Text string
}

// Elsewhere finds where a host has the value of a moved sysctl.
func (h *Host) Elsewhere(m Moved) Elsewhere {
	k, known := Lookup(m.Knob)
	if !known {
		k = Knob{Unit: Text, Places: []Place{{File: m.File}}}
	}
	e := Elsewhere{Found: h.Probe(k)[0]}
	switch {
	case e.File == "" && m.Gone != "" && e.Support == Unknown:
		e.Text = fmt.Sprintf("%s before Linux %s (%s); since then %s", m.Knob, m.Gone, e.Why, m.Instead)
	case e.File == "" && m.Gone != "":
		e.Text = m.Instead
	case known && e.File == "":
		e.Text = m.Knob + ": " + e.Why
	case known && e.Support != Settable:
		e.Text = fmt.Sprintf("%s (%s), which cannot be set: %s", m.Knob, e.File, e.Why)
	case known:
		e.Text = fmt.Sprintf("%s (%s)", m.Knob, e.File)
	case e.File != "":
		e.Text = m.File + ", for which Berth has no knob"
	case e.Support == Unknown:
		e.Text = m.File + ": " + e.Why
	default:
		e.Text = "nothing: " + e.Why
	}
	return e
}

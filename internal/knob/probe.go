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

// Support says what can be done with a knob on a host.
type Support string

// The kinds of support; the package comment explains them.
const (
	Settable Support = "settable"
	ReadOnly Support = "readOnly"
	Absent   Support = "absent"
	Unknown  Support = "unknown"
)

// Found is one file of a knob on a host, or why there is none.
type Found struct {
	// Instance is what the file is of, such as cpu3; empty where there is one file only.
	Instance string
	// File is its path on the host, empty where there is none.
	File    string
	Place   Place
	Support Support
	// Now is the value in the words of users, empty where it cannot be read.
	Now string
	// Allowed are the words that the host takes, where it says so.
	Allowed []string
	// Fixed says that nothing can set it, or put it back: the kernel has the file for reading
	// only, or for writing only.
	Fixed bool
	// Dormant says that its CPUs are offline: the kernel shows and takes no value of it until one is back.
	Dormant bool
	// Loss says what a write of any value would change elsewhere that no undo puts back; LossOf says
	// it of one value.
	Loss string
	// Why says what is in the way of setting it.
	Why string
}

// Probe looks for a knob. It returns at least one Found: where the knob has no file, one
// that says why.
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

// entry is a file that is there, with its mode.
type entry struct {
	Found
	mode fs.FileMode
}

// expand returns the files of a place, which are there.
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

// below goes one part of a path further, in each of the directories.
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

// counts says whether an instance has what it must have besides the file.
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

// look reads one file and says whether it can be set.
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

// awake reads a file, trimmed. Of a frequency policy without online CPUs the error is EBUSY, also where the
// kernel still shows a value.
func (h *Host) awake(file string) (string, error) {
	text, err := h.text(file)
	if err != nil || !InPolicy(file) {
		return text, err
	}
	if cpus, err := h.text(path.Join(path.Dir(file), PolicyCPUs)); err == nil && cpus == "" {
		return "", syscall.EBUSY
	}
	return text, nil // which CPUs it has need not be known
}

// Effective returns the CPUs that the host made of a file that was found, "" where it does
// not say.
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

// There says whether the host has a file.
func (h *Host) There(file string) bool {
	_, there, err := h.stat(file)
	return err == nil && there
}

// withWords notes the words that the files take, from the first file that can be read or from one beside it:
// one kernel takes the same for every instance.
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

// shown reads the value from the file that shows it, "" where none does.
func (h *Host) shown(p Place) string {
	if p.Shown == nil {
		return ""
	}
	if n, found := p.Shown.Read(h.Text(p.Shown.File)); found {
		return Span(n)
	}
	return ""
}

// missing says of a place without files whether the host lacks it or only hides it.
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

// subsystem is what every kernel has of the tree that a file is in.
func subsystem(file string) string {
	for _, dir := range []string{sysctls, "/proc"} {
		if strings.HasPrefix(file, dir+"/") {
			return dir
		}
	}
	return "/sys"
}

// Survey is what a host has of some knobs, by their names.
type Survey map[string][]Found

// Survey looks for the knobs of the names; one that no knob has is left out.
func (h *Host) Survey(names []string) Survey {
	s := Survey{}
	for _, name := range names {
		if k, ok := Lookup(name); ok && s[name] == nil {
			s[name] = h.Probe(k)
		}
	}
	return s
}

// Elsewhere is where a host has the value of a sysctl that its kernel does not have.
type Elsewhere struct {
	// Found is the knob's file, or that of no knob; Place and Now are empty where the host
	// has none.
	Found
	// Text says where, and what to do instead where nothing has it.
	Text string
}

// Elsewhere looks where a host has the value of a moved sysctl.
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

package bootargs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// InForce returns the value that the running kernel has for an argument, "" for none, and whether it was booted with
// token. If the kernel shows that it derived other CPUs from the argument, have shows those CPUs. For example, it
// removes the boot CPU from nohz_full.
func InForce(fsys fs.FS, token string) (have string, booted bool) {
	t := &tree{fsys: fsys}
	for _, other := range Tokens(t.text("proc/cmdline")) {
		if other == token || nameOf(other) == nameOf(token) && (have != token || !repeats(nameOf(token))) {
			have = other // of two, the kernel uses the last
		}
	}
	if have != token {
		return have, false
	}
	name, value, _ := strings.Cut(token, "=")
	wanted, file := cpusOf(nameOf(token), value)
	file = "sys/devices/system/cpu/" + file
	made, err := cpuset.Parse(strings.TrimSuffix(strings.TrimSpace(t.text(file)), "(null)"))
	if wanted.IsEmpty() || err != nil || t.err != nil || !t.exists(file) || made == wanted {
		return have, true
	}
	return name + "=" + made.String(), true
}

// cpusOf returns the CPUs that an argument names, and the file in which the kernel shows the CPUs that it derived. It
// returns no CPUs for an argument without this file.
func cpusOf(name, value string) (cpus cpuset.Set, file string) {
	switch name {
	case "nohz_full":
		file = "nohz_full"
	case "isolcpus":
		flags := 0
		parts := strings.Split(value, ",")
		for flags < len(parts) && slices.Contains([]string{"nohz", "domain", "managed_irq"}, parts[flags]) {
			flags++
		}
		if flags > 0 && !slices.Contains(parts[:flags], "domain") {
			return cpuset.Set{}, ""
		}
		file, value = "isolated", strings.Join(parts[flags:], ",")
	default:
		return cpuset.Set{}, ""
	}
	cpus, err := cpuset.Parse(value)
	if err != nil {
		return cpuset.Set{}, ""
	}
	return cpus, file
}

// Booted reports whether the running kernel was booted with all of the arguments.
func Booted(fsys fs.FS, tokens []string) bool {
	return !slices.ContainsFunc(tokens, func(token string) bool {
		_, booted := InForce(fsys, token)
		return !booted
	})
}

// Tries reports whether the running kernel was booted with all of the arguments and is the kernel of the trial, as far
// as is known. A kernel that was installed in the meantime may have inherited the arguments.
func Tries(fsys fs.FS, tokens []string, kernel string) bool {
	t := &tree{fsys: fsys}
	image, release := t.kernel(), strings.TrimSpace(t.text("proc/sys/kernel/osrelease"))
	runs := func(k string) bool {
		return image != "" && k == image || image == "" && release != "" && strings.Contains(k, release)
	}
	return Booted(fsys, tokens) && (kernel == "" || runs(kernel) || !slices.ContainsFunc(Kernels(fsys), runs))
}

// Armed reports whether the next boot is the trial.
func Armed(fsys fs.FS) bool {
	t := &tree{fsys: fsys}
	for _, config := range []string{GRUBConfig, grub2Config} {
		if e, err := ReadEnv([]byte(t.text(path.Dir(config) + "/grubenv"))); err == nil {
			if next, _ := e.Get(NextEntry); next == TrialID {
				return true
			}
		}
	}
	return strings.TrimSuffix(Variable([]byte(t.text(oneShot))), ".conf") == TrialID
}

// Kernels returns the kernels that the loader offers, each once, without those of rescue entries.
func Kernels(fsys fs.FS) []string {
	t := &tree{fsys: fsys}
	var all []string
	for _, e := range menu(t.text(GRUBConfig)) {
		all = append(all, e.image())
	}
	for _, name := range t.entries() {
		all = append(all, field(split(t.text(name)), "linux"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Holder is a list of arguments that has some tokens.
type Holder struct {
	// Name is the file below the root. Label is the list in it, "" in a file with one list.
	Name, Label string
	Form        Form
	Tokens      []string
}

// String returns the list's name for messages.
func (h Holder) String() string {
	if h.Label == "" {
		return "/" + h.Name
	}
	return "label " + h.Label + " of /" + h.Name
}

// Holders returns the lists that have some of the tokens: entries of the Boot Loader Specification, the file for future
// kernels, and the labels of extlinux. becomes returns the text that each file will have.
func Holders(fsys fs.FS, tokens []string, becomes func(name, text string) string) ([]Holder, error) {
	t := &tree{fsys: fsys}
	var all []Holder
	for _, name := range append(t.entries(), newKernels, extlinuxCfg) {
		form := FormEntry
		switch name {
		case newKernels:
			form = FormPlain
		case extlinuxCfg:
			form = FormLabels
		}
		edited(becomes(name, t.text(name)), form.lists(), func(label string, values []string) {
			var has []string
			for _, v := range values {
				has = append(has, Tokens(v)...)
			}
			held := slices.DeleteFunc(slices.Clone(tokens), func(token string) bool { return !slices.Contains(has, token) })
			if len(held) > 0 {
				all = append(all, Holder{name, label, form, held})
			}
		})
	}
	if t.err != nil {
		return nil, fmt.Errorf("look for boot arguments: %w", t.err)
	}
	return all, nil
}

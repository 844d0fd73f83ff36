package bootargs

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// TrialID is the id of the entry that boots once. Without a choice a loader boots the entry of the highest version. A
// version with a tilde is below all others (rpmvercmp of GRUB, strverscmp of systemd-boot).
const TrialID = "~berth-trial"

// NextEntry is the variable in GRUB's environment block that names the entry for one boot.
const NextEntry = "next_entry"

const (
	trialFile  = TrialID + ".conf"
	trialTitle = "Berth: boot arguments on trial"
	customMenu = "boot/grub/custom.cfg"
)

// The EFI variables of systemd-boot.
const (
	variables = "sys/firmware/efi/efivars"
	vendor    = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	oneShot   = variables + "/LoaderEntryOneShot" + vendor
	selected  = variables + "/LoaderEntrySelected" + vendor
	// loaderInfo is the variable in which a loader leaves its name for the system.
	loaderInfo = variables + "/LoaderInfo" + vendor
)

const whyUnknown = "it is not known which entry the running kernel was booted from"

// kernel returns the path of the running kernel as the loader gave it, "" if the loader gave none.
func (t *tree) kernel() string {
	for _, token := range Tokens(t.text("proc/cmdline")) {
		if image, is := strings.CutPrefix(token, "BOOT_IMAGE="); is {
			if _, file, onDevice := strings.Cut(image, ")"); onDevice {
				return file
			}
			return image
		}
	}
	return ""
}

// field returns the first value of a key in the lines of an entry.
func field(lines []string, keys ...string) string {
	for _, line := range lines {
		if key, from, to := keyed(line); slices.Contains(keys, key) {
			return line[from:to]
		}
	}
	return ""
}

// entryTrial makes the entry for one boot from the entry of the running kernel.
func (t *tree) entryTrial(want []string) (f File, kernel, why string) {
	name := t.booted()
	if name == "" {
		return File{}, "", whyUnknown
	}
	text := t.text(name)
	copied := Changed("", text, FormEntry, t.lacking(text, want))
	var b strings.Builder
	for _, line := range split(copied.After) {
		switch key, from, to := keyed(line); key {
		case "sort-key", "id", "grub_hotkey":
		case "title":
			b.WriteString(line[:from] + trialTitle + line[to:])
		case "version":
			b.WriteString(line[:from] + TrialID + line[to:])
		default:
			b.WriteString(line)
		}
	}
	f = File{Name: path.Join(path.Dir(name), trialFile), Missing: true, After: b.String(), Form: FormTrial, Want: want}
	return f, field(split(text), "linux"), ""
}

// booted returns the entry of the running kernel: the entry that systemd-boot names, else the only entry with that
// kernel, else the only entry.
func (t *tree) booted() string {
	names, image := t.entries(), t.kernel()
	named := strings.TrimSuffix(Variable([]byte(t.text(selected))), ".conf")
	release := strings.TrimSpace(t.text("proc/sys/kernel/osrelease"))
	for _, is := range []func(name, linux string) bool{
		func(name, _ string) bool { return named != "" && strings.EqualFold(path.Base(name), named+".conf") },
		func(_, linux string) bool { return image != "" && linux == image },
		func(_, linux string) bool { return release != "" && strings.Contains(linux, release) },
		func(string, string) bool { return true },
	} {
		found := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !is(name, field(split(t.text(name)), "linux"))
		})
		if len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// menuEntry is one entry of GRUB's menu for a kernel of this system.
type menuEntry struct {
	// head is two parts of the first line: the text between the title and the id, and the text after the id.
	head  []string
	lines []string
}

// menu returns the entries that update-grub made for the kernels of this system, except for recovery.
func menu(text string) []menuEntry {
	head := regexp.MustCompile(`^[ \t]*menuentry '(?:[^']|'\\'')*'(.*)\$menuentry_id_option 'gnulinux-[^']*'(.*)$`)
	var all []menuEntry
	open := false
	for _, line := range split(text) {
		switch parts := head.FindStringSubmatch(body(line)); {
		case parts != nil:
			open = !isRescue(line)
			if open {
				all = append(all, menuEntry{head: parts[1:]})
			}
		case open && strings.TrimSpace(line) == "}":
			open = false
		case open:
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		}
	}
	return slices.DeleteFunc(all, func(e menuEntry) bool { return len(kernelLine(e.lines)) == 0 })
}

// kernelLine finds the arguments of a kernel in the lines of an entry of GRUB's menu.
func kernelLine(lines []string) []list {
	for i, line := range lines {
		key, from, to := keyed(line)
		if !slices.Contains([]string{"linux", "linuxefi", "linux16"}, key) || from == to {
			continue
		}
		end := from + spans(line[from:to])[0].to
		return []list{{lines: []place{{i, end, to}}, rescue: isRescue(line[end:to])}}
	}
	return nil
}

// image returns the kernel of an entry, with the path that GRUB sees.
func (e menuEntry) image() string {
	p := kernelLine(e.lines)[0].lines[0]
	words := strings.Fields(e.lines[p.line][:p.from])
	return words[len(words)-1]
}

func (e menuEntry) args() []string {
	p := kernelLine(e.lines)[0].lines[0]
	return Tokens(e.lines[p.line][p.from:p.to])
}

// Standing returns the tokens that all entries of GRUB's menu have, separated by blanks. Recovery entries do not
// matter.
func Standing(config string, tokens []string) string {
	entries := menu(config)
	standing := slices.DeleteFunc(slices.Clone(tokens), func(token string) bool {
		return len(entries) == 0 || slices.ContainsFunc(entries, func(e menuEntry) bool { return !slices.Contains(e.args(), token) })
	})
	return strings.Join(standing, " ")
}

// Lost returns what is missing in the new menu of update-grub compared with the present menu, "" for nothing. It
// reports a menu without entries, or without the entry of a kernel that still exists or runs. update-grub also succeeds
// if it finds no kernel, for example if /boot is not mounted.
func Lost(fsys fs.FS, standing, made string) string {
	t := &tree{fsys: fsys}
	entries := menu(made)
	if len(entries) == 0 {
		return "no entry of a kernel"
	}
	running := path.Base(t.kernel())
	for _, old := range menu(standing) {
		image := path.Base(old.image())
		if slices.ContainsFunc(entries, func(e menuEntry) bool { return path.Base(e.image()) == image }) {
			continue
		}
		if _, err := fs.Stat(fsys, path.Join("boot", image)); image == running || !errors.Is(err, fs.ErrNotExist) {
			return "no entry of " + image
		}
	}
	return ""
}

// The marks around the entry in a file of the administrator's.
const (
	partBegin = "\n# begin of what berth tune made: an entry that boots once\n"
	partEnd   = "# end of what berth tune made\n"
)

// fallback makes GRUB start its first entry if the trial cannot start: its kernel may be removed before the boot, by an
// update of the system. Without a fallback GRUB waits for a key. The first entry is the newest kernel's, without the
// arguments. A fallback of the administrator's stays, and other boots than the trial are as they were.
const fallback = "if [ \"${default}\" = '" + TrialID + "' -a -z \"${fallback}\" ]; then\n\tset fallback=0\nfi\n"

// menuTrial makes the entry for one boot from the entry of the running kernel. GRUB reads it from a file that
// update-grub does not write.
func (t *tree) menuTrial(want []string) (f File, kernel, why string) {
	config := t.text(GRUBConfig)
	if !strings.Contains(config, "/custom.cfg") {
		return File{}, "", "/" + GRUBConfig + " does not read custom.cfg"
	}
	image := t.kernel()
	entries := menu(config)
	at := slices.IndexFunc(entries, func(e menuEntry) bool { return e.image() == image })
	if at < 0 || image == "" {
		return File{}, "", whyUnknown
	}
	e := entries[at]
	text := edited(strings.Join(e.lines, ""), kernelLine, func(_ string, values []string) {
		set(values, want)
	})
	before := withoutPart(t.text(customMenu))
	f = File{Name: customMenu, Before: before, Missing: !t.exists(customMenu), Form: FormPart, Want: want}
	f.After = before + partBegin +
		"menuentry '" + trialTitle + "'" + e.head[0] + "$menuentry_id_option '" + TrialID + "'" + e.head[1] + "\n" + text + "}\n" + fallback + partEnd
	return f, image, ""
}

func withoutPart(text string) string {
	before, rest, begun := strings.Cut(text, partBegin)
	_, after, ended := strings.Cut(rest, partEnd)
	if !begun || !ended {
		return text
	}
	return before + after
}

// Variable returns the text of an EFI variable, which follows its attributes.
func Variable(data []byte) string {
	const attributes = 4
	if len(data) < attributes {
		return ""
	}
	var units []uint16
	for rest := data[attributes:]; len(rest) > 1; rest = rest[2:] {
		if u := binary.LittleEndian.Uint16(rest); u != 0 {
			units = append(units, u)
		}
	}
	return string(utf16.Decode(units))
}

// NewVariable returns an EFI variable with a text. It survives a boot, and the loader may read it.
func NewVariable(text string) []byte {
	const nonVolatile, bootService, runtime = 1, 2, 4
	data := binary.LittleEndian.AppendUint32(nil, nonVolatile|bootService|runtime)
	for _, u := range append(utf16.Encode([]rune(text)), 0) {
		data = binary.LittleEndian.AppendUint16(data, u)
	}
	return data
}

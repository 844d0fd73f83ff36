package tune

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// tunedFile is the file name of every TuneD profile.
const tunedFile = "tuned.conf"

// isTuned reports whether a text has a [section].
func isTuned(text string) bool {
	for line := range strings.Lines(text) {
		if _, is := section(line); is {
			return true
		}
	}
	return false
}

func section(line string) (string, bool) {
	line = strings.TrimSpace(line)
	inner, opened := strings.CutPrefix(line, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	return strings.TrimSpace(inner), opened && closed
}

// tuned reads a file of TuneD. The plug-in of a section is its type, else its name.
func (r *reader) tuned(text string) {
	lines := strings.Split(text, "\n")
	plugin := ""
	for i, line := range lines {
		bare := strings.TrimSpace(line)
		if name, is := section(bare); is {
			plugin = pluginOf(name, lines[i+1:])
			continue
		}
		if bare == "" || strings.ContainsAny(bare[:1], "#;") {
			continue
		}
		l := Line{Line: i + 1, Text: bare}
		key, value, assigns := strings.Cut(bare, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !assigns {
			l.Verdict, l.Why = Unknown, "no KEY = VALUE"
			r.add(l)
			continue
		}
		value, known := r.expand(value)
		if !known {
			l.Verdict, l.Why = Unknown, "a function or a variable without value: Berth runs nothing"
			r.add(l)
			continue
		}
		if plugin == "main" && key == "include" {
			r.includes(l, value)
			continue
		}
		r.add(r.option(l, plugin, key, value))
	}
}

// pluginOf returns the plug-in of a section.
func pluginOf(name string, lines []string) string {
	for _, line := range lines {
		if _, next := section(line); next {
			break
		}
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "type" {
			return strings.TrimSpace(value)
		}
	}
	return name
}

// expand replaces variables. It never runs a function.
func (r *reader) expand(value string) (string, bool) {
	known := true
	value = regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(value, func(use string) string {
		text, ok := r.variables[strings.TrimSpace(use[2:len(use)-1])]
		known = known && ok
		return text
	})
	const longest = 1 << 10 // a variable may be made of variables
	return value, known && len(value) < longest && !strings.Contains(value, "${")
}

// includes reads the included profiles. Their lines come before the lines that follow.
func (r *reader) includes(l Line, value string) {
	const most = 64 // profiles that include each other would be read without end
	names := strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ';' || c == ' ' })
	if len(names) == 0 {
		l.Verdict, l.Why = Unknown, "names no profile"
		r.add(l)
	}
	for _, name := range names {
		one := l
		file, text, found := "", "", false
		switch {
		case slices.Contains(r.stack, name):
			one.Verdict, one.Why = Unknown, "profile "+name+" includes itself"
		case r.included == most:
			one.Verdict, one.Why = Unknown, "more included profiles than Berth reads"
		case r.include != nil:
			file, text, found = r.include(name)
		}
		if !found {
			if one.Verdict == "" {
				one.Verdict, one.Why = Unknown, "no profile "+name+" of TuneD here: its lines are not known"
			}
			r.add(one)
			continue
		}
		one.Verdict, one.Why = Translated, "the lines of "+file+" follow"
		r.add(one)
		r.included++
		outer := r.file
		r.file, r.stack = file, append(r.stack, name)
		r.tuned(text)
		r.file, r.stack = outer, r.stack[:len(r.stack)-1]
	}
}

// option judges one option of a plug-in.
func (r *reader) option(l Line, plugin, key, value string) Line {
	if key == "type" {
		l.Verdict, l.Why = Kept, "names the plug-in"
		return l
	}
	switch plugin {
	case "main":
		l.Verdict, l.Why = Kept, "sets nothing"
		return l
	case "variables":
		r.variables[key] = value
		l.Verdict, l.Why = Translated, "replaced where it is used"
		return l
	case "sysctl":
		if strings.HasPrefix(value, ">") || strings.HasPrefix(value, "<") {
			l.Verdict, l.Why = Unknown, "a condition: it depends on the value before"
			return l
		}
		return r.sysctl(l, key, strings.Trim(value, `"`))
	case "scheduler":
		return r.scheduler(l, key, value)
	case "cpu":
		return r.cpu(l, key, value)
	case "vm":
		return r.named(l, map[string]string{
			"transparent_hugepages": "thp.enabled", "transparent_hugepage": "thp.enabled", "transparent_hugepage.defrag": "thp.defrag",
		}[key], value)
	case "sysfs":
		k, _, _ := knob.OfFile(key)
		if k.Unit != knob.Choice { // TuneD writes the file's own text, a profile has words for people
			k.Name = ""
		}
		return r.named(l, k.Name, value)
	case "bootloader":
		return r.boot(l, key, value)
	case "script":
		l.Verdict, l.Why = Unknown, "a program: Berth runs nothing"
		return l
	}
	l.Verdict, l.Why = Unknown, "Berth has no knob for the plug-in "+plugin
	return l
}

// named translates an option that is a knob of the catalogue.
func (r *reader) named(l Line, name, value string) Line {
	k, ok := knob.Lookup(name)
	if !ok {
		l.Verdict, l.Why = Unknown, "Berth has no knob for it"
		return l
	}
	l.Knob = name
	found := r.host.Probe(k)[0]
	// TuneD uses the first of several words that the host accepts.
	var words []string
	for word := range strings.SplitSeq(value, "|") {
		if word = strings.TrimSpace(word); len(found.Allowed) == 0 || slices.Contains(found.Allowed, word) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		l.Verdict, l.Why = Dead, "this host takes "+strings.Join(found.Allowed, ", ")
		return l
	}
	v, err := k.Parse(words[0])
	switch {
	case err != nil:
		l.Verdict, l.Why = Unknown, "allowed: "+k.Range()
	case found.Support == knob.Absent: // another host has the hardware for it; TuneD also continues without it
		l.Verdict, l.Why = Translated, "optional: "+found.Why
		r.result.Profile.Spec.Settings[name] = v1alpha1.ProfileSetting{Value: v1alpha1.ProfileValue(v.Text), Optional: true}
	default:
		l.Verdict, l.Why = Translated, strings.TrimSuffix(found.Why+"; "+k.Trap, "; ")
		l.Why = strings.TrimPrefix(l.Why, "; ")
		r.set(name, v.Text)
	}
	return l
}

// scheduler judges the plug-in's options: its sched_ names are names of old sysctls.
func (r *reader) scheduler(l Line, key, value string) Line {
	switch {
	case key == "isolated_cores":
		return r.isolated(l, value)
	case strings.HasPrefix(key, "group."):
		l.Verdict, l.Why, l.Instead = Unknown, "threads by a pattern of their names", "policy in spec.units"
		return l
	}
	sysctl := "kernel." + key
	if _, known := knob.Move(sysctl); known {
		return r.sysctl(l, sysctl, value)
	}
	l.Verdict, l.Why = Unknown, "Berth has no knob for it"
	return l
}

// isolated makes a set of the CPUs that TuneD frees of threads.
func (r *reader) isolated(l Line, value string) Line {
	cpus, err := cpuset.Parse(strings.ReplaceAll(value, " ", ""))
	if err != nil || cpus.IsEmpty() {
		l.Verdict, l.Why = Unknown, "allowed: a CPU list such as 2-7"
		return l
	}
	l.Verdict, l.Knob, l.Instead = Translated, "cpus.partition", "spec.cpus: an isolated partition"
	r.result.Profile.Spec.CPUs = map[string]v1alpha1.ProfileCPUs{
		"isolated": {CPUs: cpus.String(), Partition: v1alpha1.PartitionIsolated},
	}
	return l
}

func (r *reader) cpu(l Line, key, value string) Line {
	switch key {
	case "governor":
		return r.named(l, "cpu.governor", value)
	case "energy_performance_preference":
		return r.named(l, "cpu.epp", value)
	case "force_latency", "pm_qos_resume_latency_us":
		n, err := strconv.ParseInt(value, 10, 32)
		switch {
		case value == "n/a" || err == nil && n == 0 && key == "force_latency":
			value = "none"
		case err == nil && n == 0:
			value = "any"
		case err == nil && n > 0:
			value = knob.Span(n * 1000)
		}
		return r.named(l, "cpu.resumeLatency", value)
	case "isolated_cores":
		l.Verdict, l.Why = Dead, "TuneD has no such option in [cpu] and ignores it: nothing was isolated"
		l.Instead = "[scheduler] isolated_cores; in a profile spec.cpus with partition isolated"
		return l
	}
	l.Verdict, l.Why = Unknown, "Berth has no knob for it"
	return l
}

// boot translates added arguments.
func (r *reader) boot(l Line, key, value string) Line {
	if !strings.HasPrefix(key, "cmdline") {
		l.Verdict, l.Why = Unknown, "Berth has no knob for it"
		return l
	}
	args := strings.Fields(strings.TrimPrefix(strings.Trim(value, `"`), "+"))
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") || strings.ContainsAny(arg, `"'\$`) || strings.ContainsFunc(arg, unicode.IsControl) {
			l.Verdict, l.Why = Unknown, "arguments that are taken away or quoted are not taken"
			return l
		}
	}
	l.Verdict, l.Knob = Translated, "boot"
	r.result.Profile.Spec.Boot = append(r.result.Profile.Spec.Boot, args...)
	return l
}

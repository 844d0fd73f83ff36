package tune

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Verdict is the result for a line of another tool's file.
type Verdict string

// The verdicts; the package comment explains them.
const (
	Kept       Verdict = "kept"
	Translated Verdict = "translated"
	Dead       Verdict = "dead"
	Harmful    Verdict = "harmful"
	Unknown    Verdict = "unknown"
)

// Line is one line of the file.
type Line struct {
	// File is set for a line of an included file.
	File string `json:"file,omitempty"`
	Line int    `json:"line"`
	Text string `json:"text"`
	// Knob is the knob that sets the value in the profile, or would set it.
	Knob    string  `json:"knob"`
	Verdict Verdict `json:"verdict"`
	// Since is the first kernel version on which the line does nothing.
	Since   string `json:"since"`
	Instead string `json:"instead"`
	Why     string `json:"why"`
}

// Import is a file line by line, and the profile made of its valid lines. Its JSON is a stable contract.
type Import struct {
	Lines   []Line           `json:"lines"`
	Profile v1alpha1.Profile `json:"profile"`
}

// Prober finds knobs on the host that a file is imported for.
type Prober interface {
	Probe(k knob.Knob) []knob.Found
	Elsewhere(m knob.Moved) knob.Elsewhere
}

// Include returns the file of a TuneD profile that another profile includes.
type Include func(name string) (file, text string, found bool)

// Read imports the text of a file. A text with a [section] is TuneD's; any other text is for sysctl.d.
func Read(file, text string, host Prober, include Include) Import {
	r := reader{host: host, include: include, variables: map[string]string{}}
	r.result.Lines = []Line{}
	r.result.Profile = v1alpha1.Profile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindProfile},
		ObjectMeta: metav1.ObjectMeta{Name: profileName(file)},
		Spec:       v1alpha1.ProfileSpec{Settings: map[string]v1alpha1.ProfileSetting{}},
	}
	if isTuned(text) {
		r.tuned(text)
	} else {
		r.sysctls(text)
	}
	return r.result
}

// profileName returns a profile's name made of a file's name; for TuneD it uses the directory's name.
func profileName(file string) string {
	base := path.Base(file)
	if base == tunedFile {
		base = path.Base(path.Dir(file))
	}
	base = strings.ToLower(strings.TrimSuffix(base, path.Ext(base)))
	keep := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	const most = 100
	name := strings.Map(keep, base)
	name = strings.Trim(name[:min(len(name), most)], "-")
	if name == "" {
		return "imported"
	}
	return name
}

// reader imports one file.
type reader struct {
	host      Prober
	include   Include
	variables map[string]string
	// file is the present included file, empty for the first. stack are the profiles that wait for it, and included the
	// number of all included profiles.
	file     string
	stack    []string
	included int
	watchdog bool // a lockup detector is switched off
	result   Import
}

func (r *reader) add(l Line) {
	l.File = r.file
	r.result.Lines = append(r.result.Lines, l)
}

func (r *reader) set(name, value string) {
	r.result.Profile.Spec.Settings[name] = v1alpha1.ProfileSetting{Value: v1alpha1.ProfileValue(value)}
}

// sysctls reads a file for sysctl.d.
func (r *reader) sysctls(text string) {
	assigned := map[int]knob.Assignment{}
	for _, a := range knob.SysctlLines(text) {
		assigned[a.Line] = a
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		l := Line{Line: n, Text: bare}
		a, assigns := assigned[n]
		switch {
		case bare == "" || strings.ContainsAny(bare[:1], "#;"):
			continue
		case assigns:
			l = r.sysctl(l, a.Key, a.Value)
			r.override(l)
			r.add(l)
		default:
			l.Verdict, l.Why = Unknown, "no KEY = VALUE"
			r.add(l)
		}
	}
}

// override marks an earlier line that sets the same knob as overridden.
func (r *reader) override(by Line) {
	if by.Verdict != Kept {
		return
	}
	for i := range r.result.Lines {
		if l := &r.result.Lines[i]; l.Verdict == Kept && l.Knob == by.Knob && l.File == r.file {
			l.Why = fmt.Sprintf("overridden by line %d", by.Line)
		}
	}
}

// sysctl judges one sysctl for this host.
func (r *reader) sysctl(l Line, key, value string) Line {
	l.Knob = knob.Prefix + key
	k, ok := knob.Lookup(l.Knob)
	if !ok {
		l.Knob, l.Verdict, l.Why = "", Unknown, "not the name of one sysctl; a pattern is not taken: name each"
		return l
	}
	v, err := k.Parse(value)
	if err != nil {
		l.Verdict, l.Why = Unknown, "allowed: "+k.Range()
		return l
	}
	s := profile.Setting{Knob: k, Value: v}
	if profile.Harmful(s) {
		about, _ := profile.Meaning(s)
		l.Verdict, l.Knob, l.Why = Harmful, about.Name, about.Harm
		l.Instead = fmt.Sprintf("%s: %s to %s", about.Name, knob.Span(about.SafeLow), knob.Span(about.SafeHigh))
		return l
	}
	found := r.host.Probe(k)[0]
	moved, known := knob.Move(key)
	switch {
	case found.Fixed && found.Support == knob.Unknown:
		l.Verdict, l.Why = Unknown, "berth tune apply refuses it: "+found.Why
	case found.Fixed:
		l.Verdict, l.Knob, l.Why = Dead, "", found.Why
	case found.File != "":
		return r.present(l, s, found)
	case known && found.Support == knob.Absent:
		l = r.moved(l, moved, v.Text)
	case found.Support == knob.Unknown:
		l.Verdict, l.Why = Unknown, found.Why
	default:
		l.Verdict, l.Why = Unknown, "this kernel has no such sysctl, and Berth knows none that replaces it"
	}
	return l
}

// present judges a sysctl that this kernel has.
func (r *reader) present(l Line, s profile.Setting, found knob.Found) Line {
	misfit := s.Knob.Misfit(found, s.Value)
	switch {
	case misfit != "":
		l.Verdict, l.Why = Unknown, misfit
		return l
	case found.LossOf(s.Value.Text) != "" && found.Now != s.Value.Text:
		l.Verdict, l.Why = Unknown, "berth tune apply refuses it: "+found.LossOf(s.Value.Text)
		return l
	case r.watchdog && found.Now != "0" && switchesOff(found, s):
		l.Verdict, l.Why = Unknown, "berth tune apply refuses it: "+knob.LastWatchdog
		return l
	case found.Loss != "":
		l.Why = "as the host has it; another value: " + found.Loss
	default:
		about, _ := profile.Meaning(s)
		l.Why = cmp.Or(found.Why, about.Trap)
	}
	l.Verdict = Kept
	r.watchdog = r.watchdog || switchesOff(found, s)
	r.set(l.Knob, s.Value.Text)
	return l
}

func switchesOff(found knob.Found, s profile.Setting) bool {
	return knob.IsWatchdog(found.File) && s.Value.Text == "0"
}

// moved judges a sysctl that this kernel no longer has.
func (r *reader) moved(l Line, m knob.Moved, value string) Line {
	e := r.host.Elsewhere(m)
	l.Since, l.Instead = m.Since, e.Text
	k, hasKnob := knob.Lookup(m.Knob)
	if !hasKnob || e.Support == knob.Absent {
		l.Verdict, l.Knob = Dead, ""
		if m.Gone != "" && e.File == "" && e.Support == knob.Absent {
			l.Since = m.Gone
		}
		return l
	}
	l.Knob = m.Knob
	if m.Gone != "" && e.Support == knob.Unknown {
		l.Verdict = Unknown
		return l
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		l.Verdict, l.Why = Unknown, "no whole number"
		return l
	}
	text := value
	if k.Unit == knob.Duration {
		text = knob.Span(n)
	}
	v, err := k.Parse(text)
	if err != nil {
		l.Verdict, l.Why = Harmful, "out of range; allowed: "+k.Range()
		return l
	}
	l.Verdict, l.Why = Translated, k.Trap
	if !k.Advised(v.N) {
		l.Why = "outside the advised range; " + l.Why
	}
	r.set(m.Knob, v.Text)
	return l
}

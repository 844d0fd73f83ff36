package bootargs

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Plan is the change that gives the next boots some arguments.
type Plan struct {
	Loader Loader `json:"loader"`
	// Files are the files that change; none if all tokens are present.
	Files []File `json:"files"`
	// Regenerate is the program that makes the loader's own file from Files, "" for none.
	Regenerate string `json:"regenerate"`
	// Trial is how the first boot alone can have the arguments.
	Trial Trial `json:"trial"`
	// Notes are what the administrator must know.
	Notes []string `json:"notes"`
}

// updateGRUB is Debian's program that writes grub.cfg.
const updateGRUB = "/usr/sbin/update-grub"

// Make returns the plan for the tokens. The error is ErrToken, ErrByHand, or a read error.
func Make(fsys fs.FS, tokens []string) (Plan, error) {
	if err := Check(tokens); err != nil {
		return Plan{}, err
	}
	t := &tree{fsys: fsys}
	loader, err := t.detect()
	if t.err == nil && err != nil {
		return Plan{}, err
	}
	p := Plan{Loader: loader, Files: []File{}, Notes: []string{}}
	switch loader {
	case GRUB:
		t.grub(&p, tokens)
	case BLS, SystemdBoot:
		t.specified(&p, tokens)
	case Extlinux:
		t.extlinux(&p, tokens)
	}
	for _, f := range p.Files {
		if t.err == nil && f.isOpen() {
			t.err = fmt.Errorf("%w: /%s: a quote is not closed", ErrByHand, f.Name)
		}
	}
	p.Trial = t.trial(loader, tokens)
	p.Files = slices.DeleteFunc(p.Files, func(f File) bool { return f.Before == f.After })
	if len(p.Files) == 0 {
		p.Regenerate = ""
	}
	if t.err != nil {
		return Plan{}, fmt.Errorf("plan boot arguments: %w", t.err)
	}
	return p, nil
}

// grub plans Debian's loader: a part of our own, which is read last. The part omits the tokens of the administrator's
// other files.
func (t *tree) grub(p *Plan, want []string) {
	p.Regenerate = updateGRUB
	var others grubLines
	for _, name := range append([]string{grubDefault}, t.named(grubParts, ".cfg")...) {
		if name != ownPart {
			others.read(t.text(name))
		}
	}
	have := slices.Concat(others.all, others.normal)
	missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
		return slices.Contains(have, w) && !slices.ContainsFunc(have, func(h string) bool { return rivals(w, h) })
	})
	for _, h := range have {
		for _, w := range missing {
			if rivals(w, h) {
				p.Notes = append(p.Notes, fmt.Sprintf("the administrator's files of grub have %s: %s comes after it on the line", h, w))
			}
		}
	}
	f := File{Name: ownPart, Missing: !t.exists(ownPart), Form: FormOwn, Want: missing, Changes: map[string]Change{"": {Added: missing}}}
	if !f.Missing {
		f.Before = t.text(ownPart)
	}
	var own grubLines
	own.read(f.Before)
	f.After = f.Before
	if !isSame(own.normal, missing) {
		f.After = "# Made by berth tune, and removed by its rollback. Entries for recovery do not have this.\n" +
			`GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} ` + strings.Join(missing, " ") + "\"\n"
	}
	p.Files = append(p.Files, f)
}

func isSame(a, b []string) bool {
	all := func(tokens, in []string) bool {
		return !slices.ContainsFunc(tokens, func(token string) bool { return !slices.Contains(in, token) })
	}
	return all(a, b) && all(b, a)
}

// grubLines are the tokens that the files of grub assign literally: for all entries, and for entries that are not for
// recovery. Other shell syntax is not evaluated.
type grubLines struct{ all, normal []string }

// read adds the lines of one file. An assignment that does not refer to the earlier value replaces it, as in some
// machine images.
func (g *grubLines) read(text string) {
	line := regexp.MustCompile(`^[ \t]*(GRUB_CMDLINE_LINUX(_DEFAULT)?)(\+?)=(?:"([^"]*)"|'([^']*)'|([^ \t"'#]*))`)
	for l := range strings.Lines(text) {
		m := line.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		list := &g.all
		if m[2] != "" {
			list = &g.normal
		}
		var refers bool
		kept := slices.DeleteFunc(Tokens(m[4]+m[5]+m[6]), func(token string) bool {
			is := token == "$"+m[1] || token == "${"+m[1]+"}"
			refers = refers || is
			return is
		})
		if m[3] == "" && !refers {
			*list = nil
		}
		*list = append(*list, kept...)
	}
}

// specified plans entries of the Boot Loader Specification, and the arguments of future kernels.
func (t *tree) specified(p *Plan, want []string) {
	for _, name := range t.entries() {
		text := t.text(name)
		p.Files = append(p.Files, Changed(name, text, FormEntry, t.lacking(text, want)))
	}
	if t.exists(newKernels) {
		text := t.text(newKernels)
		if len(plain(split(text))) == 0 {
			p.Notes = append(p.Notes, "/"+newKernels+" has no line with arguments: kernels to come start without these")
		}
		p.Files = append(p.Files, Changed(newKernels, text, FormPlain, want))
	} else {
		p.Notes = append(p.Notes, "there is no /"+newKernels+": kernels that are installed later copy the arguments of the kernel that runs then")
	}
}

// lacking returns the tokens that an entry does not inherit from grub's environment block.
func (t *tree) lacking(entry string, want []string) []string {
	if !strings.Contains(entry, "$kernelopts") {
		return want
	}
	var variables []string
	for line := range strings.Lines(t.text(grub2Env)) {
		if value, is := strings.CutPrefix(body(line), "kernelopts="); is {
			variables = Tokens(value)
		}
	}
	here := Tokens(entry)
	return slices.DeleteFunc(slices.Clone(want), func(w string) bool {
		return slices.Contains(variables, w) && !slices.ContainsFunc(slices.Concat(variables, here), func(other string) bool { return rivals(w, other) })
	})
}

// lineEnd returns the missing end of a text's last line.
func lineEnd(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return ""
	}
	return "\n"
}

// extlinux plans the labels.
func (t *tree) extlinux(p *Plan, want []string) {
	text := t.text(extlinuxCfg)
	if strings.Contains(t.text("etc/default/u-boot"), "U_BOOT") || t.exists("usr/sbin/u-boot-update") {
		p.Notes = append(p.Notes, "u-boot-update writes /"+extlinuxCfg+" again at each kernel: add the tokens to U_BOOT_PARAMETERS in /etc/default/u-boot as well")
	}
	f := Changed(extlinuxCfg, text, FormLabels, want)
	if len(f.Changes) == 0 && len(labels(split(text))) == 0 {
		p.Notes = append(p.Notes, "/"+extlinuxCfg+" has no append line: nothing can be added")
	}
	p.Files = append(p.Files, f)
}

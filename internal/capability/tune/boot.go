package tune

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Boot is the input of a plan about how a host boots.
type Boot struct {
	// Want are the boot arguments that the profile desires.
	Want []string
	// Cmdline are the arguments of the running kernel.
	Cmdline []string
	// Made is, by desired argument, the argument with the CPUs that the kernel has instead, where these differ.
	Made map[string]string
	// Files is the change in the files of the boot loader, and Err why it is not known. Both are nil if the tree has no
	// such files, as in a recording.
	Files *bootargs.Plan
	Err   error
}

// cmdline has the arguments of the running kernel.
const cmdline = "/proc/cmdline"

// boots returns the boot arguments, each with its state in the running kernel, and then the lines of the loader's files
// that set them.
func boots(args []string, b Boot) []Setting {
	var rows []Setting
	for _, arg := range args {
		rows = append(rows, boot(arg, b))
	}
	if len(args) == 0 || b.Files == nil || b.Err != nil {
		return rows
	}
	for _, f := range b.Files.Files {
		for _, line := range f.Lines() {
			rows = append(rows, Setting{
				Knob: "boot", Instance: string(b.Files.Loader), File: line.File, Now: line.Now, Want: line.Want, Support: knob.Settable,
				Class: knob.Reboot, Risk: knob.High, Reboot: true, Phase: knob.Boot, Why: bringing(b.Files),
			})
		}
	}
	return rows
}

// boot returns one boot argument: the running kernel's command line shows whether it is in effect.
func boot(arg string, b Boot) Setting {
	name, _, _ := strings.Cut(arg, "=")
	row := Setting{
		Knob: "boot", Instance: name, File: cmdline, Want: arg, Support: knob.Unknown,
		Class: knob.Reboot, Risk: knob.High, Reboot: true, Phase: knob.Boot,
		Why: "for the boot loader of this machine",
	}
	for _, have := range b.Cmdline {
		if before, _, _ := strings.Cut(have, "="); before == name && row.Now != arg {
			row.Now = have
		}
	}
	row.Reboot = !row.Stands()
	switch {
	case errors.Is(b.Err, bootargs.ErrByHand) && row.Stands():
		row.Support, row.Why = knob.Settable, "it was set by hand"
	case errors.Is(b.Err, bootargs.ErrByHand):
		row.Support, row.Why = knob.Absent, b.Err.Error()+": the argument is "+arg
	case b.Err != nil:
		row.Why = b.Err.Error()
	case b.Files == nil:
	default:
		row.Support, row.Why = knob.Settable, fmt.Sprintf("the files of %s have it: the next boot brings it", b.Files.Loader)
	}
	if row.Support == knob.Settable && slices.ContainsFunc(b.Files.Files, func(f bootargs.File) bool { return adds(f, arg) }) {
		row.Why = fmt.Sprintf("the next boot after a change of the files of %s brings it", b.Files.Loader)
	}
	return row
}

// otherCPUs returns a finding for each argument in effect of which the kernel made other CPUs. The next boot does not
// change that, so the argument's row has nothing to write.
func otherCPUs(b Boot) []profile.Finding {
	all := []profile.Finding{}
	for _, arg := range slices.Sorted(maps.Keys(b.Made)) {
		all = append(all, profile.Finding{
			Code: "boot-cpus", Severity: profile.Warning,
			Text: fmt.Sprintf("the running kernel was booted with %s and made %s of it", arg, b.Made[arg]),
		})
	}
	return all
}

func adds(f bootargs.File, arg string) bool {
	for _, c := range f.Changes {
		if slices.Contains(c.Added, arg) {
			return true
		}
	}
	return false
}

// bringing returns what an administrator must know about a change of the loader's files.
func bringing(p *bootargs.Plan) string {
	parts := slices.Clone(p.Notes)
	if p.Regenerate != "" {
		parts = append(parts, p.Regenerate+" takes it over")
	}
	if p.Trial.Way == "" {
		parts = append(parts, "no boot for trial, which needs --no-trial: "+p.Trial.Why)
	} else {
		parts = append(parts, "the first boot is a trial")
	}
	return strings.Join(parts, "; ")
}

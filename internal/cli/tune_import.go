package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/table"
)

func newTuneImportCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:         "import FILE",
		Short:       "Say what each line of a sysctl.d or tuned.conf file means today",
		Annotations: promise(),
		Long: `Reads a sysctl.d file or a TuneD profile, and says of every line whether this kernel
still has the setting (kept), which setting replaces it (translated), since when nothing
reads it and what to do instead (dead), whether it does harm (harmful), or that Berth
does not know it (unknown). The output ends with a profile of the valid settings. FILE -
is standard input.

The command reads included TuneD profiles from this host or --root. It executes nothing
and writes nothing.`,
		Example: `  berth tune import /etc/sysctl.d/95-scheduler.conf
  berth tune import /etc/tuned/my-profile/tuned.conf -o json
  sysctl -a | berth tune import - --root machine.txtar`,
		Args: oneArg("a file"),
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			text, err := orInterrupted(cmd.Context(), func() ([]byte, error) { return readFileOr(args[0], cmd.InOrStdin()) })
			if ctx := cmd.Context(); ctx.Err() != nil {
				return fmt.Errorf("import %s: %w", args[0], ctx.Err())
			}
			if err != nil {
				return usageError(fmt.Errorf("import %s: %w", args[0], err))
			}
			if err := importable(text); err != nil {
				return usageError(fmt.Errorf("import %s: %w", args[0], err))
			}
			tree, closeTree, err := g.openMachine()
			if err != nil {
				return err
			}
			defer closeTree()
			name, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("import %s: %w", args[0], err)
			}
			result := tune.Read(name, string(text), knob.Open(tree), included(tree))
			return show(cmd.OutOrStdout(), format, result, func(w io.Writer) error { return printImport(w, result) })
		}),
	}
}

// maxImport is the most bytes of a file.
const maxImport = 1 << 20

func importable(text []byte) error {
	if len(text) > maxImport || bytes.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("allowed: a text of at most %d bytes", maxImport)
	}
	return nil
}

// included finds TuneD profiles in TuneD's own directories, the administrator's first.
func included(tree fs.FS) tune.Include {
	return func(name string) (file, text string, found bool) {
		for _, dir := range []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"} {
			at := path.Join(dir, path.Base(name), "tuned.conf")
			if content, err := fs.ReadFile(tree, at); err == nil && importable(content) == nil {
				return "/" + at, string(content), true
			}
		}
		return "", "", false
	}
}

func printImport(w io.Writer, result tune.Import) error {
	rows := [][]string{{"LINE", "TEXT", "VERDICT", "SINCE", "INSTEAD, WHY"}}
	for _, l := range result.Lines {
		line := strconv.Itoa(l.Line)
		if l.File != "" {
			line = l.File + ":" + line
		}
		instead := l.Instead
		if instead == "" && l.Verdict == tune.Translated {
			instead = l.Knob
		}
		means := strings.Trim(instead+"; "+l.Why, "; ")
		rows = append(rows, []string{line, l.Text, string(l.Verdict), textOrDash(l.Since), textOrDash(means)})
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	var b strings.Builder
	if err := encode(&b, "yaml", result.Profile); err != nil {
		return err
	}
	return writeText(w, fmt.Sprintf("\nAs a profile:\n\n%s", b.String()))
}

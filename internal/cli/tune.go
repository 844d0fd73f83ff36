package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/value/table"
)

// profileDir is the directory of the administrator's profiles.
const profileDir = "/etc/berth/profiles"

func newTuneCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Host profiles: plan, apply, measure, undo; translate files of other tools",
		Long: `A host profile sets the kernel's knobs, CPU sets and units of one host. An apply is undone
after 2 minutes unless you commit it. All commands except apply, commit, bench and
rollback only read the host, or a recorded tree (--root).`,
	}
	cmd.AddCommand(newTuneListCommand(g), newTunePlanCommand(g), newTuneImportCommand(g), newTuneApplyCommand(g),
		newTuneCommitCommand(g), newTuneVerifyCommand(g), newTuneRollbackCommand(g), newTuneBenchCommand(g), newTuneDeadlineCommand(g), newTuneAheadCommand(g))
	return parent(cmd)
}

// profiles finds profiles by name: first in a directory, then among the built-in profiles.
type profiles struct {
	dir string
}

// profiles returns the profiles of the tree that --root names.
func (g *globals) profiles() profiles {
	dir := profileDir
	if g.Root != "/" {
		dir = filepath.Join(g.Root, profileDir) // a recording in a file has none
	}
	return profiles{dir: dir}
}

// load returns the profile with this name, or profile.ErrUnknown if there is none.
func (p profiles) load(name string) (profile.Document, error) {
	file, err := manifest.LoadProfile(filepath.Join(p.dir, path.Base(name)+".yaml"))
	if isMissing(err) {
		text, builtIn := profile.BuiltIn(name)
		if !builtIn {
			return profile.Document{}, fmt.Errorf("profile %q: %w: allowed: %s, or a path with a /", name, profile.ErrUnknown, joined(p.names()))
		}
		file, err = manifest.ParseProfile("built-in "+name, text)
	}
	return document(file, name, err)
}

// document checks that a profile's name matches the name of its file.
func document(file manifest.ProfileFile, name string, err error) (profile.Document, error) {
	if err != nil {
		return profile.Document{}, err
	}
	if file.Profile.Name != name {
		problem := v1alpha1.FieldErrors{{Field: "metadata.name", Value: v1alpha1.Show(file.Profile.Name), Allowed: "the name of the file, " + name}}
		return profile.Document{}, file.Locate(problem)
	}
	return profile.Document{Profile: file.Profile, Locate: file.Locate}, nil
}

// isMissing reports whether a file or its directory is missing.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// open returns the profile with this name or path, with everything that it inherits.
func (p profiles) open(arg string) (profile.Document, []string, error) {
	var d profile.Document
	var err error
	if strings.Contains(arg, "/") || filepath.Ext(arg) == ".yaml" || filepath.Ext(arg) == ".yml" {
		var file manifest.ProfileFile
		file, err = manifest.LoadProfile(arg)
		d = profile.Document{Profile: file.Profile, Locate: file.Locate}
	} else {
		d, err = p.load(arg)
	}
	switch {
	case errors.Is(err, profile.ErrUnknown), isMissing(err):
		return d, nil, usageError(err)
	case err != nil:
		return d, nil, err
	}
	return profile.Whole(d, p.load)
}

// names returns all profile names, built-in profiles first.
func (p profiles) names() []string {
	names := profile.BuiltIns()
	entries, _ := os.ReadDir(p.dir) // without the directory, only built-in profiles exist
	for _, e := range entries {
		name, isProfile := strings.CutSuffix(e.Name(), ".yaml")
		if isProfile && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// completeProfile completes profile names.
func (g *globals) completeProfile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return g.profiles().names(), cobra.ShellCompDirectiveDefault
}

// listedProfile is one line of berth tune list; its JSON is a stable contract.
type listedProfile struct {
	Name    string   `json:"name"`
	Origin  string   `json:"origin"`
	Inherit []string `json:"inherit"`
	About   string   `json:"about"`
	// Problem says why the profile cannot be used.
	Problem string `json:"problem"`
}

func newTuneListCommand(g *globals) *cobra.Command {
	var schema bool
	var config string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the profiles, and say which is applied",
		Long: `Lists the built-in profiles and those in ` + profileDir + `, which hide
built-in ones of their name. --schema prints the JSON Schema of a profile, for
editors that check and complete YAML.`,
		Example: `  berth tune list
  berth tune list --schema >profile.schema.json`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if schema {
				if format == "table" {
					format = "json"
				}
				return encode(cmd.OutOrStdout(), format, profile.Schema())
			}
			_, closed, err := g.openReading()
			if err != nil {
				return err
			}
			defer closed()
			list := g.profiles().list()
			now := g.inForceOr(cmd, config)
			return show(cmd.OutOrStdout(), format, map[string]any{"profiles": list, "applied": now}, func(w io.Writer) error {
				return errors.Join(printProfiles(w, list), printLine(w, "\n"+now.String()+"\n"))
			})
		}),
	}
	configFlag(cmd, &config)
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of a profile instead")
	return cmd
}

func (p profiles) list() []listedProfile {
	var list []listedProfile
	for _, name := range p.names() {
		one := listedProfile{Name: name, Origin: "built-in", Inherit: []string{}}
		text, _ := profile.BuiltIn(name)
		file := filepath.Join(p.dir, name+".yaml")
		if info, err := os.Stat(file); err == nil {
			one.Origin, text = file, nil
			if info.Mode().IsRegular() {
				text, _ = os.ReadFile(file) // open reports what is wrong with it
			}
		}
		one.About = profile.About(text)
		if _, parents, err := p.open(name); err != nil {
			one.Problem = err.Error()
		} else {
			one.Inherit = append(one.Inherit, parents...)
		}
		list = append(list, one)
	}
	return list
}

func printLine(w io.Writer, line string) error {
	return writeText(w, wrapLines(line, table.WidthOf(w)))
}

func printProfiles(w io.Writer, list []listedProfile) error {
	rows := [][]string{{"PROFILE", "ORIGIN", "INHERITS", "ABOUT"}}
	for _, p := range list {
		about := p.About
		if p.Problem != "" {
			about = "cannot be used: " + p.Problem
		}
		rows = append(rows, []string{p.Name, p.Origin, textOrDash(strings.Join(p.Inherit, ", ")), about})
	}
	return table.Write(w, rows)
}

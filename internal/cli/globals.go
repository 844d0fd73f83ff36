package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/hostfs"
)

// globals are the flags that every command shares.
type globals struct {
	// Root is the tree that reading commands look at: "/" or a recorded one.
	Root string
	// Output is the requested format; empty means the command's own default.
	Output string
}

func (g *globals) register(fs *pflag.FlagSet) {
	fs.StringVar(&g.Root, "root", "/", "read this recorded /proc and /sys tree instead of the host")
	fs.StringVarP(&g.Output, "output", "o", "", "output format: table, json or yaml (topology also: tree, nodetopology)")
}

// format returns the output format, one of allowed; the first is the default.
func (g *globals) format(allowed ...string) (string, error) {
	if g.Output == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, g.Output) {
		return "", usageError(fmt.Errorf("--output %q: allowed: %s", g.Output, joined(allowed)))
	}
	return g.Output, nil
}

// joined lists names for a message.
func joined[S ~string](names []S) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

// openRoot opens the tree that --root names.
func (g *globals) openRoot() (*hostfs.Root, error) {
	root, err := hostfs.Open(g.Root)
	if err != nil {
		return nil, usageError(fmt.Errorf("--root %s: allowed: a directory that holds proc and sys: %w", g.Root, err))
	}
	return root, nil
}

// encode writes v as indented JSON or as YAML.
func encode(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if format == "yaml" {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
	}
	if format == "json" {
		data = append(data, '\n')
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// show writes a result: as a table by the function for people, else encoded.
func show(w io.Writer, format string, v any, table func(io.Writer) error) error {
	if format == "table" {
		return table(w)
	}
	return encode(w, format, v)
}

// noArgs refuses positional arguments as bad usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0]))
	}
	return nil
}

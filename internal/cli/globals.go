package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
)

// globals are the flags of every command, and the capabilities of Berth.
type globals struct {
	// Root is the tree that reading commands read: "/" or a recorded tree.
	Root string
	// Output is the requested format. Empty means the command's own default.
	Output string
	// capabilities are all capabilities in the order of the output.
	capabilities []capability.Info
	// unpacked is the directory of an unpacked recording, "" for none.
	unpacked string
	// program is the running program.
	program Program
}

func (g *globals) register(flags *pflag.FlagSet) {
	flags.StringVar(&g.Root, "root", "/", "read this recorded /proc and /sys tree, or this file made with --capture, instead of the host")
	flags.StringVarP(&g.Output, "output", "o", "", "output format: table, json or yaml (topology, place and simulate also: svg; topology also: tree, nodetopology)")
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

// formatted returns the run function of a command with the three usual formats, and more.
func formatted(g *globals, run func(cmd *cobra.Command, args []string, format string) error, more ...string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		format, err := g.format(append([]string{"table", "json", "yaml"}, more...)...)
		if err != nil {
			return err
		}
		return run(cmd, args, format)
	}
}

// joined lists names for a message.
func joined[S ~string](names []S) string {
	return strings.Join(texts(names), ", ")
}

// openRoot opens the host, or the directory that --root names.
func (g *globals) openRoot() (*hostfs.Root, error) {
	root, err := hostfs.Open(g.Root)
	if err != nil {
		return nil, usageError(fmt.Errorf("--root %s: allowed: a directory that holds proc and sys: %w", g.Root, err))
	}
	return root, nil
}

// checkRoot checks that --root names a directory, for a command that may not read it.
func (g *globals) checkRoot() error {
	root, err := g.openRoot()
	if err != nil {
		return err
	}
	_ = root.Close() // nothing was written
	return nil
}

// rootless refuses --root for a command that asks an agent and reads no tree.
func rootless(cmd *cobra.Command) error {
	if root := cmd.Flags().Lookup("root"); root != nil && root.Changed {
		return usageError(fmt.Errorf("--root %s: %s asks the agent that runs; allowed: left out", root.Value, cmd.CommandPath()))
	}
	return nil
}

// treeForms are the values of --root that reading commands accept.
const treeForms = "a directory that holds proc and sys, or a file made with --capture"

// openReading opens --root for a command that only reads the host. It unpacks a recording until closed is called.
func (g *globals) openReading() (root *hostfs.Root, closed func(), err error) {
	recording, err := g.recording()
	if err != nil {
		return nil, nil, err
	}
	if recording == nil {
		root, err = g.openRoot()
		return root, func() { _ = root.Close() }, err // nothing was written
	}
	dir, err := os.MkdirTemp("", "berth-recording-")
	if err != nil {
		return nil, nil, fmt.Errorf("unpack --root %s: %w", g.Root, err)
	}
	g.unpacked = dir
	removed := func() { _ = os.RemoveAll(dir) } // only a copy remains
	if err := os.CopyFS(dir, recording); err != nil {
		removed()
		return nil, nil, fmt.Errorf("unpack --root %s: %w", g.Root, err)
	}
	if root, err = hostfs.Open(dir); err != nil {
		removed()
		return nil, nil, fmt.Errorf("unpack --root %s: %w", g.Root, err)
	}
	return root, func() { _ = root.Close(); removed() }, nil
}

// recording reads the file that --root names. It returns nil if --root is not a regular file.
func (g *globals) recording() (*topology.Recording, error) {
	if info, err := os.Stat(g.Root); err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr,nilnil // openRoot says what is wrong with it
	}
	text, err := os.ReadFile(g.Root)
	if err != nil {
		return nil, usageError(fmt.Errorf("--root %s: %w", g.Root, err))
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		return nil, usageError(fmt.Errorf("--root %s: allowed: %s: %w", g.Root, treeForms, err))
	}
	return recording, nil
}

// hostError returns the error of reading a host. Missing files in a tree of --root are bad input.
func (g *globals) hostError(err error) error {
	if err == nil || g.Root == "/" || errors.Is(err, fs.ErrPermission) {
		return err
	}
	if g.unpacked != "" {
		err = inRecording{err, g.unpacked, g.Root}
	}
	return usageError(fmt.Errorf("--root %s: allowed: a tree with the files that this command reads: %w", g.Root, err))
}

// inRecording is an error from an unpacked recording. Its text names the recording in place of the directory.
type inRecording struct {
	error

	dir, file string
}

func (e inRecording) Error() string { return strings.ReplaceAll(e.error.Error(), e.dir, e.file) }

// Unwrap returns the error of the directory.
func (e inRecording) Unwrap() error { return e.error }

// encode writes v as indented JSON or as YAML. JSON is not copied on its way to w: a large cluster has 100 MB of it.
func encode(w io.Writer, format string, v any) error {
	if format == "json" {
		encoder := json.NewEncoder(literals{raw(w)})
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(v); err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(v)
	if err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return writeOutput(raw(w), string(data))
}

// literals writes JSON with literal <, > and &. encoding/json escapes them for web pages, even in parts that encode
// themselves. An escaped backslash does not begin an escape. Each Write has whole escapes.
type literals struct{ to io.Writer }

func (l literals) Write(text []byte) (int, error) {
	out := bufio.NewWriter(l.to) // Flush returns its error
	rest := text
	for {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			break
		}
		literal, n := unescape(rest[i:])
		_, _ = out.Write(rest[:i])
		_, _ = out.Write(literal)
		rest = rest[i+n:]
	}
	_, _ = out.Write(rest)
	if err := out.Flush(); err != nil {
		return 0, fmt.Errorf("write output: %w", err)
	}
	return len(text), nil
}

// unescape returns what to write for the escape at the beginning of text, and the length of the escape.
func unescape(text []byte) (literal []byte, n int) {
	const escape = len(`\u003c`)
	switch string(text[:min(escape, len(text))]) {
	case `\u003c`:
		return []byte("<"), escape
	case `\u003e`:
		return []byte(">"), escape
	case `\u0026`:
		return []byte("&"), escape
	}
	n = min(2, len(text))
	return text[:n], n
}

// show writes a result: table formats it for people, else it is encoded.
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

// writeOutput writes a text to the standard output, and says so in its error.
func writeOutput(w io.Writer, text string) error {
	if err := writeText(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func writeText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err //nolint:wrapcheck // a closed standard output needs no context
}

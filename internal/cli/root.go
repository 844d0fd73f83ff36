// Package cli is the command line of Berth: every command, its flags and its output. A command parses, calls one lower
// package and prints; it makes no decisions. Errors keep their class up to Run, which returns the documented exit code
// (exit.go).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/capability"
)

// Streams are the three standard streams of a process.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Program is the running program: its name and its build.
type Program struct {
	// Name is the last part of the path that started the program: "berth", or "kubectl-berth" if kubectl started it as
	// its plugin.
	Name string
	// Version is a tag or a description of the commit, Commit its hash; each may be empty.
	Version, Commit string
}

// plugin reports whether kubectl started the program. Its user thinks of a cluster, not of a host.
func (p Program) plugin() bool { return strings.HasPrefix(p.Name, "kubectl-") }

// display returns the command that the user types.
func (p Program) display() string {
	if p.plugin() {
		return "kubectl berth"
	}
	return "berth"
}

// Run executes one command line of the program berth and returns its exit code. Only the command's result goes to Out;
// errors go to Err.
func Run(ctx context.Context, args []string, s Streams, version string) int {
	return RunAs(ctx, Program{Name: "berth", Version: version}, args, s)
}

// RunAs is Run for a program with its own name and build.
func RunAs(ctx context.Context, p Program, args []string, s Streams) int {
	s.Out, s.Err = outputTo(s.Out), outputTo(s.Err)
	root := newRoot(s, p, agent.Capabilities())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(s.Err, "berth: interrupted")
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		_, _ = fmt.Fprintln(s.Err, "berth:", errorText(err), "(run it as root)")
	default:
		_, _ = fmt.Fprintln(s.Err, "berth:", errorText(err))
	}
	return exitCode(err)
}

// errorText returns the text of an error. Lines after the first are indented, so that a name in it cannot look like
// another message of Berth.
func errorText(err error) string { return strings.ReplaceAll(err.Error(), "\n", "\n  ") }

// Command returns all commands of a program, for man pages and completions.
func Command(p Program) *cobra.Command {
	return newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, p, agent.Capabilities())
}

func newRoot(s Streams, p Program, capabilities []capability.Info) *cobra.Command {
	g := &globals{capabilities: capabilities, program: p}
	root := &cobra.Command{
		Use:   "berth",
		Short: "The right cores, memory and quota for every CPU-sensitive workload",
		Long: `Berth gives every CPU-sensitive workload its place on a Linux host, proves what
it did and can undo it.

Exit codes: 0 done; 1 failed; 2 bad usage or bad input; 3 not supported by this kernel
or node, or not permitted to this user; 4 the host differs from what was applied, or a
live agent holds it.`,
		Version:          p.Version,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { g.settle(cmd) },
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	g.register(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", // fails only for an unknown flag
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch cmd.Name() {
			case "topology":
				return topologyFormats(), cobra.ShellCompDirectiveNoFileComp
			case "place", "simulate":
				return []string{"table", "json", "yaml", formatSVG}, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp
		})
	root.AddCommand(commands(g)...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
	completeNothing(root)
	if p.plugin() {
		asPlugin(root, p)
	}
	return parent(root)
}

// strict makes the commands that cobra adds refuse unknown arguments. For an unknown topic or shell, cobra prints help
// and returns success.
func strict(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = helpArgs
		case "completion":
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
			parent(cmd)
		}
	}
}

// completeNothing prevents shells from completing file names for commands without arguments.
func completeNothing(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.Args != nil && cmd.Args(cmd, []string{"file"}) != nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		completeNothing(sub)
	}
}

// helpArgs accepts the path of a command.
func helpArgs(cmd *cobra.Command, args []string) error {
	found, unknown, err := cmd.Root().Find(args)
	if err != nil {
		return usageError(err)
	}
	return unknownCommand(found, unknown)
}

// unknownCommand refuses arguments that should be a subcommand of cmd, if any.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), allowedNames(cmd, args[0])))
}

// flagError adds the allowed values to the error of an invalid flag value.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usageError(err)
	}
	allowed := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, 0 or more",
		"uint16":  "a whole number from 0 to 65535",
		"float64": "a number", "bool": "true or false", "duration": "a duration such as 500ms or 10s",
	}[invalid.GetFlag().Value.Type()]
	if allowed == "" {
		return usageError(err)
	}
	return usageError(fmt.Errorf("--%s %q: allowed: %s", invalid.GetFlag().Name, invalid.GetValue(), allowed))
}

// parent makes a command with only subcommands refuse unknown subcommands. Without arguments the command prints its
// help.
func parent(cmd *cobra.Command) *cobra.Command {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// allowedNames returns the subcommands that arg may have meant, or all of them.
func allowedNames(cmd *cobra.Command, arg string) string {
	cmd.SuggestionsMinimumDistance = min(2, len(arg)/2) // one of three letters may be wrong
	names := cmd.SuggestionsFor(arg)
	if len(names) > 0 {
		return "did you mean " + strings.Join(names, " or ") + "?"
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return "allowed: " + strings.Join(names, ", ")
}

// usageError marks err as bad usage.
func usageError(err error) error { return fmt.Errorf("%w: %w", ErrUsage, err) }

// withoutCluster says when flags of a host are allowed.
const withoutCluster = "only allowed without a cluster"

// refuseFlags refuses flags that have no effect in this call, and says why.
func refuseFlags(cmd *cobra.Command, why string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usageError(fmt.Errorf("--%s: %s", name, why))
		}
	}
	return nil
}

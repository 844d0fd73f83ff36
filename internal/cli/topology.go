package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/cli/picture"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/durable"
	"github.com/berth-project/berth/internal/value/table"
)

func newTopologyCommand(g *globals) *cobra.Command {
	var capture string
	var force bool
	var object objectFlags
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show sockets, NUMA nodes, caches and cores of a machine",
		Long: `Shows the machine as a tree, as a table with a line per core (-o table), as JSON or YAML
with every set as a CPU list, or as an image (-o svg). Warnings name what the kernel's
tables leave open or contradict. With -o nodetopology --name NODE the command prints the
NodeTopology of a cluster's node, as YAML.

--root reads a recorded tree, or a file made with --capture. Such a file has the few
files that were read, and the kernel settings that berth tune knows. It has no host name,
serial numbers or addresses: attach it to a bug report, and it becomes a test.`,
		Example: `  berth topology
  berth topology -o json
  berth topology --capture machine.txtar
  berth topology --root machine.txtar
  berth topology -o nodetopology --name node-a --reserved 0,32 | kubectl apply -f -`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := g.format(topologyFormats()...)
			if err != nil {
				return err
			}
			if force && capture == "" {
				return usageError(errors.New("--force: only allowed with --capture"))
			}
			if err := object.check(cmd, format); err != nil {
				return err
			}
			tree, closeTree, err := g.openMachine()
			if err != nil {
				return err
			}
			defer closeTree()
			if capture != "" {
				return g.captureMachine(cmd.OutOrStdout(), tree, capture, force)
			}
			t, err := topology.Discover(tree)
			if err != nil {
				return g.machineError(err)
			}
			if format == formatNodeTopology {
				return object.print(cmd.OutOrStdout(), t)
			}
			return printTopology(cmd.OutOrStdout(), format, t)
		},
	}
	object.register(cmd.Flags())
	cmd.Flags().StringVar(&capture, "capture", "", "record the machine in this new `FILE` (.txtar); - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "with --capture: replace an existing file")
	return cmd
}

// openMachine opens --root: a tree, or a machine in one file.
func (g *globals) openMachine() (fs.FS, func(), error) {
	recording, err := g.recording()
	if err != nil {
		return nil, nil, err
	}
	if recording != nil {
		return recording, func() {}, nil
	}
	root, err := g.openRoot()
	if err != nil {
		return nil, nil, err
	}
	return root.FS(), func() { _ = root.Close() }, nil // nothing was written
}

// machineError adds the tree to the error; a tree without a machine is bad input.
func (g *globals) machineError(err error) error {
	err = fmt.Errorf("--root %s: %w", g.Root, err)
	if errors.Is(err, topology.ErrNoMachine) {
		return usageError(fmt.Errorf("%w: allowed: a tree that holds sys/devices/system/cpu", err))
	}
	return err
}

// captureMachine writes the recording to a new file, or to w if name is "-".
func (g *globals) captureMachine(w io.Writer, tree fs.FS, name string, force bool) error {
	recording, err := topology.Capture(tree)
	if err != nil {
		return g.machineError(err)
	}
	if recording, err = recording.With(knob.Record(tree)); err != nil {
		return fmt.Errorf("record the kernel's settings: %w", err)
	}
	if name == "-" {
		return writeText(raw(w), string(recording.Format()))
	}
	if err := writeNew("--capture", name, recording.Format(), force); err != nil {
		return err
	}
	return writeText(w, fmt.Sprintf("%s: recorded %d files\n", name, recording.Len()))
}

// writeNew writes a complete file or none. An existing file is bad usage without force. With force the old content
// remains until the new content is complete.
func writeNew(flag, name string, content []byte, force bool) error {
	const readable = 0o644
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, readable)
	switch {
	case force && errors.Is(err, fs.ErrExist):
		return durable.Replace(name, content, readable)
	case errors.Is(err, fs.ErrExist):
		return usageError(fmt.Errorf("%s %s: the file exists: allowed: a new name, or --force to replace it", flag, name))
	case err != nil:
		return usageError(fmt.Errorf("%s %s: allowed: a name in an existing directory: %w", flag, name, err))
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(readable), file.Close()); err != nil {
		_ = os.Remove(name) // the first error is the one to report
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func printTopology(w io.Writer, format string, t *topology.Topology) error {
	switch format {
	case "tree":
		return printTree(w, t)
	case "table":
		return printCores(w, t)
	case formatSVG:
		return writeSVG(w, summary(t), []picture.Picture{machinePicture(t)}, t.Warnings...)
	default:
		return encode(w, format, t)
	}
}

// printCores prints a line per core.
func printCores(w io.Writer, t *topology.Topology) error {
	rows := [][]string{{"CORE", "CPUS", "SOCKET", "NUMA", "L3", "KIND", "ISOLATED"}}
	for _, core := range t.Cores {
		rows = append(rows, []string{
			fmt.Sprint(core.ID), core.CPUs.String(),
			idOrDash(int(core.Socket)), idOrDash(int(core.Node)), idOrDash(int(core.L3)),
			textOrDash(string(core.Kind)), textOrDash(core.CPUs.Intersect(t.Isolated).String()),
		})
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	page := table.PageFor(w)
	printRemarks(page, t, plain)
	return writeOutput(w, page.String())
}

func idOrDash(id int) string {
	if id == topology.None {
		return "-"
	}
	return fmt.Sprint(id)
}

func textOrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

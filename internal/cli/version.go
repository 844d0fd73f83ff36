package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// build is the output of berth version; its JSON is a stable contract.
type build struct {
	Version string `json:"version"`
	// Commit is empty if the build did not set it.
	Commit string `json:"commit"`
	Go     string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show version, commit, Go and platform",
		Long:    "Shows how this program was built: its version and commit, the Go release and the platform.",
		Example: "  berth version\n  berth version -o json",
		Args:    noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			b := build{g.program.Version, g.program.Commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return show(cmd.OutOrStdout(), format, b, func(w io.Writer) error {
				return writeText(w, fmt.Sprintf("version   %s\ncommit    %s\ngo        %s\nplatform  %s\n", b.Version, cmp.Or(b.Commit, "unknown"), b.Go, b.Platform))
			})
		}),
	}
}

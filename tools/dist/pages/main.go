// Command pages writes the man pages and the shell completions of berth into a directory:
//
//	pages DIR VERSION SECONDS
//
// The date of the pages is SECONDS since 1970.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/berth-project/berth/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const readable, searchable = 0o644, 0o755
	if len(args) != 3 {
		return fmt.Errorf("%d arguments, want DIR VERSION SECONDS", len(args))
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("SECONDS: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	root := cli.Command(cli.Program{Name: "berth", Version: args[1]})
	untagged(root)
	man := filepath.Join(args[0], "man")
	if err := os.MkdirAll(man, searchable); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Berth " + args[1], Manual: "Berth"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	for name, write := range map[string]func(*os.File) error{
		"berth.bash": func(f *os.File) error { return root.GenBashCompletionV2(f, true) },
		"_berth":     func(f *os.File) error { return root.GenZshCompletion(f) },
		"berth.fish": func(f *os.File) error { return root.GenFishCompletion(f, true) },
	} {
		file, err := os.OpenFile(filepath.Join(args[0], name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, readable)
		if err != nil {
			return fmt.Errorf("write completion: %w", err)
		}
		if err := write(file); err != nil {
			return fmt.Errorf("write completion %s: %w", name, err)
		}
		if err := file.Close(); err != nil {
			return fmt.Errorf("write completion %s: %w", name, err)
		}
	}
	return nil
}

// untagged omits the line with the day of the build from the page of cmd and of its subcommands.
func untagged(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		untagged(sub)
	}
}

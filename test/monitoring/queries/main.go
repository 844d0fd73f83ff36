// Program queries prints the queries of all dashboards and alert rules as JSON, for tests that have Prometheus answer
// them.
//
//	queries ROOT    reads the source tree at ROOT
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berth-project/berth/test/monitoring"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "queries:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: queries ROOT")
	}
	all, err := monitoring.Queries(os.DirFS(args[0]))
	if err != nil {
		return fmt.Errorf("queries of %s: %w", args[0], err)
	}
	if err := json.NewEncoder(out).Encode(all); err != nil {
		return fmt.Errorf("print the queries: %w", err)
	}
	return nil
}

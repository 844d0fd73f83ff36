// Program programs builds the programs that the tests of this module start.
//
//	programs build    builds missing programs, reports its progress on standard error, and
//	                  prints the paths
//	programs helm     builds Helm's client, if it is missing, and prints its path
//	programs find     prints the paths, or fails if a program is missing
//	programs path P   prints the path of one program, which may be missing
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-project/berth/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, append(os.Args[1:], "", "")); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var p cluster.Programs
	var err error
	switch args[0] {
	case "build":
		p, err = cluster.Build(ctx, os.Stderr)
	case "helm":
		path, err := cluster.BuildHelm(ctx, os.Stderr)
		if err == nil {
			fmt.Println(path)
		}
		return err
	case "find":
		p, err = cluster.Find()
	case "path":
		path, err := cluster.Path(args[1])
		if err == nil {
			fmt.Println(path)
		}
		return err
	default:
		return fmt.Errorf("usage: programs build | helm | find | path PROGRAM; not %q", args[0])
	}
	if err != nil {
		return err
	}
	return p.Write(os.Stdout)
}

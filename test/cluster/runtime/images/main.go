// Program images packs the container images of the test cluster and serves them.
//
//	images pack DIR              packs the images of Debian's programs into DIR, those that
//	                             are not there yet, and says on standard error what it does
//	images serve OPTIONS         a registry of these images and of those of static programs:
//	    -packed DIR              what pack filled
//	    -listen ADDRESS          host:port
//	    -blobs DIR               where the registry keeps layers; emptied first
//	    -program NAME=PATH       an image that holds one program; may be repeated
//
// The registry is made to be the mirror of all others: an image is found under the last
// element of its name, whatever host and path stand before it and whatever tag behind. So
// manifests that name images of anybody's run unchanged. Images that a client pushes are found
// under the name they were pushed with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "pack":
		return pack(ctx, args[1], os.Stderr)
	case len(args) > 0 && args[0] == "serve":
		return serveArgs(ctx, args[1:])
	}
	return errors.New("usage: images pack DIR | images serve OPTIONS")
}

func serveArgs(ctx context.Context, args []string) error {
	r := registrar{programs: map[string]string{}}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&r.packed, "packed", "", "")
	flags.StringVar(&r.listen, "listen", "", "")
	flags.StringVar(&r.blobs, "blobs", "", "")
	flags.Func("program", "", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want NAME=PATH")
		}
		r.programs[name] = path
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.packed == "" || r.listen == "" || r.blobs == "" || flags.NArg() > 0 {
		return errors.New("serve takes -packed, -listen and -blobs")
	}
	return r.serve(ctx)
}

// Program images packs the container images of the test cluster and serves them.
//
//	images pack DIR              packs the missing images of Debian's programs into DIR,
//	                             and reports its progress on standard error
//	images serve OPTIONS         a registry of these images and of images of static programs:
//	    -packed DIR              the directory of pack
//	    -listen ADDRESS          host:port
//	    -blobs DIR               where the registry stores layers; emptied first
//	    -version VERSION         of the programs,
//	    -seconds SECONDS         and their date since 1970, which their images contain
//	    -program NAME=PATH       an image with one program; may be repeated
//
// The registry acts as the mirror of all other registries. It finds an image by the last element of its name, for any
// host, path and tag. So manifests that name other people's images run unchanged. A client finds pushed images under
// the name with which they were pushed.
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
	flags.StringVar(&r.release.Version, "version", "", "")
	flags.Int64Var(&r.release.Seconds, "seconds", 0, "")
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
	if r.packed == "" || r.listen == "" || r.blobs == "" || r.release.Version == "" || flags.NArg() > 0 {
		return errors.New("serve takes -packed, -listen, -blobs and -version")
	}
	return r.serve(ctx)
}

// Command pack writes images of one static program for several architectures as an archive:
//
//	pack OUT NAME VERSION SECONDS ARCHITECTURE=FILE...
//
// The image has the program as /usr/bin/NAME. Its name is docker.io/library/NAME:VERSION, to which a container runtime
// expands NAME:VERSION. Its date is SECONDS since 1970. It has the licenses of the linked modules, from the module
// cache of the user. Pack prints the architecture and the digest of each image. A program of more than 60 MB is an
// error, and so is an image of more than 5 MB beyond its program.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-project/berth/tools/image"
	"github.com/berth-project/berth/tools/image/notices"
)

// errUsage reports arguments that do not match the usage above.
var errUsage = errors.New("want OUT NAME VERSION SECONDS ARCHITECTURE=FILE, as often as there are files")

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// build returns the image of an argument ARCHITECTURE=FILE, if it is small enough to ship, and its architecture.
func build(release image.Release, name, arg string) (made v1.Image, architecture string, err error) {
	architecture, file, ok := strings.Cut(arg, "=")
	if !ok {
		return nil, "", fmt.Errorf("argument %q: %w", arg, errUsage)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("read program: %w", err)
	}
	made, err = release.Image(name, architecture, binary)
	if err == nil {
		err = image.CheckSize(int64(len(binary)), made)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return made, architecture, nil
}

func run(out io.Writer, args []string) error {
	const fixed = 4
	if len(args) <= fixed {
		return errUsage
	}
	seconds, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("SECONDS: %w", err)
	}
	name, release := args[1], image.Release{Version: args[2], Seconds: seconds, Modules: notices.Cache()}
	var images []v1.Image
	var digests strings.Builder
	for _, arg := range args[fixed:] {
		made, architecture, err := build(release, name, arg)
		if err != nil {
			return err
		}
		digest, err := made.Digest()
		if err != nil {
			return fmt.Errorf("digest of %s: %w", arg, err)
		}
		fmt.Fprintf(&digests, "%s %v\n", architecture, digest)
		images = append(images, made)
	}
	archive, err := os.Create(args[0])
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := image.Archive(archive, "docker.io/library/"+name, release.Version, images); err != nil {
		return errors.Join(err, archive.Close())
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if _, err := io.WriteString(out, digests.String()); err != nil {
		return fmt.Errorf("print digests: %w", err)
	}
	return nil
}

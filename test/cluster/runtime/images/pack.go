package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/berth-project/berth/tools/image"
)

// key names a packed image by everything that determines its content, except the versions of packages: an image is
// packed only once.
func (r recipe) key() string {
	sum := sha256.Sum256(fmt.Append(nil, format, r, everyImage()))
	return fmt.Sprintf("%s-%.6x", r.name, sum)
}

// pack makes the images that are missing in a directory, each as a separate OCI layout.
func pack(ctx context.Context, dir string, log io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range recipes() {
		place := filepath.Join(dir, r.key())
		if _, err := os.Stat(place); err == nil {
			continue
		}
		fmt.Fprintf(log, "packing the image %s from Debian packages\n", r.name)
		start := time.Now()
		if err := r.pack(ctx, place); err != nil {
			return fmt.Errorf("pack %s: %w", r.name, err)
		}
		fmt.Fprintf(log, "packed the image %s in %v\n", r.name, time.Since(start).Round(time.Second))
	}
	return nil
}

// pack writes the layout to a draft and renames it, so that an interrupted pack leaves nothing that looks complete.
func (r recipe) pack(ctx context.Context, place string) error {
	work, err := os.MkdirTemp(filepath.Dir(place), "draft-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	debs, err := download(ctx, work, append([]string{shell}, r.packages...))
	if err != nil {
		return err
	}
	l := image.NewLayer()
	for _, f := range append(everyImage(), r.files...) {
		if err := l.Add(f); err != nil {
			return err
		}
	}
	for _, deb := range debs {
		if err := unpack(ctx, l, deb); err != nil {
			return err
		}
	}
	packed, err := image.Of(l, v1.ConfigFile{Architecture: architecture, Config: r.config})
	if err != nil {
		return err
	}
	draft := filepath.Join(work, "layout")
	path, err := layout.Write(draft, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(packed); err != nil {
		return err
	}
	return os.Rename(draft, place)
}

// architecture is the architecture of the machines of the test cluster.
const architecture = "amd64"

// ofProgram returns an image with one static program, which it runs. For a shipped program it is the shipped image.
func ofProgram(path string, release image.Release) (v1.Image, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return release.Image(filepath.Base(path), architecture, binary)
}

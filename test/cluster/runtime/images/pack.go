package main

import (
	"bytes"
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
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// search is where the programs of an image are looked for.
const search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// key names a packed image by what decides its content, versions of packages aside: what was
// packed once stays.
func (r recipe) key() string {
	sum := sha256.Sum256(fmt.Append(nil, format, r, everyImage()))
	return fmt.Sprintf("%s-%.6x", r.name, sum)
}

// pack makes the images that are missing in a directory, each an OCI layout of its own.
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

// pack makes the layout beside its place and renames it, so that one that was interrupted
// leaves nothing that looks done.
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
	var content bytes.Buffer
	l := newLayer(&content)
	for _, f := range append(everyImage(), r.files...) {
		if err := l.add(f); err != nil {
			return err
		}
	}
	for _, deb := range debs {
		if err := l.unpack(ctx, deb); err != nil {
			return err
		}
	}
	image, err := image(l, &content, r.config)
	if err != nil {
		return err
	}
	draft := filepath.Join(work, "layout")
	path, err := layout.Write(draft, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(image); err != nil {
		return err
	}
	return os.Rename(draft, place)
}

// ofProgram is an image that holds one static program and runs it.
func ofProgram(path string) (v1.Image, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	l := newLayer(&content)
	name := filepath.Base(path)
	for _, f := range []file{
		{path: "usr/bin/" + name, content: binary, mode: 0o755},
		{path: "tmp", mode: 0o1777},
		{path: "etc/passwd", content: []byte("root:x:0:0:root:/:/\nnobody:x:65534:65534::/:/\n")},
	} {
		if err := l.add(f); err != nil {
			return nil, err
		}
	}
	return image(l, &content, v1.Config{Entrypoint: []string{"/usr/bin/" + name}})
}

// image is one layer with a configuration.
func image(l *layer, content *bytes.Buffer, config v1.Config) (v1.Image, error) {
	if err := l.out.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	packed, err := tarball.LayerFromOpener(opener)
	if err != nil {
		return nil, err
	}
	whole, err := mutate.AppendLayers(empty.Image, packed)
	if err != nil {
		return nil, err
	}
	config.Env = append(config.Env, search)
	return mutate.ConfigFile(whole, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Config: config, RootFS: rootFS(whole),
	})
}

// rootFS is the list of layers that ConfigFile would otherwise replace by nothing.
func rootFS(of v1.Image) v1.RootFS {
	config, err := of.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return config.RootFS
}

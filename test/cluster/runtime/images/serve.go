package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/berth-project/berth/tools/image"
	"github.com/berth-project/berth/tools/image/notices"
)

// registrar serves images.
type registrar struct {
	packed, listen, blobs string
	release               image.Release
	programs              map[string]string // Path of the program by image name.
}

// serve fills a registry and then listens, until ctx ends. The registry answers only when it has every image.
func (r registrar) serve(ctx context.Context) error {
	if err := os.RemoveAll(r.blobs); err != nil {
		return err
	}
	if err := os.MkdirAll(r.blobs, 0o700); err != nil {
		return err
	}
	images, err := r.images()
	if err != nil {
		return err
	}
	handler := registry.New(registry.Logger(discard()), registry.WithBlobHandler(registry.NewDiskBlobHandler(r.blobs)))
	names := slices.Collect(maps.Keys(images))
	if err := fill(ctx, handler, images); err != nil {
		return err
	}
	clear(images) // They are on the disk now.
	debug.FreeOSMemory()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mirror(handler, names), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns its error.
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// images returns all images by name.
func (r registrar) images() (map[string]v1.Image, error) {
	all := map[string]v1.Image{}
	for _, recipe := range recipes() {
		packed, err := read(filepath.Join(r.packed, recipe.key()))
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", recipe.name, err)
		}
		all[recipe.name] = packed
	}
	for name, path := range r.programs {
		release := r.release
		if shipped := name == "berth" || name == "berth-scheduler"; shipped { // as tools/dist.sh does
			release.Modules = notices.Cache()
		}
		made, err := ofProgram(path, release)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		all[name] = made
	}
	return all, nil
}

// read returns the only image of a layout.
func read(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s holds %d images, want one", dir, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// fill pushes the images through a private server.
func fill(ctx context.Context, handler http.Handler, images map[string]v1.Image) error {
	server := httptest.NewServer(handler)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for title, content := range images {
		ref, err := name.ParseReference(host+"/"+title+":latest", name.Insecure)
		if err != nil {
			return err
		}
		if err := remote.Write(ref, content, remote.WithContext(ctx)); err != nil {
			return fmt.Errorf("push %s: %w", title, err)
		}
	}
	return nil
}

// mirror finds images by the last element of their names: /v2/HOST/PATH/NAME/manifests/TAG becomes
// /v2/NAME/manifests/latest. Pushes and unknown names pass unchanged.
func mirror(handler http.Handler, images []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			r.URL.Path = known(r.URL.Path, images)
		}
		handler.ServeHTTP(w, r)
	})
}

// known returns the path under which a known image is stored, and other paths unchanged.
func known(asked string, images []string) string {
	of, reference := path.Split(asked)
	of, kind := path.Split(path.Clean(of))
	title := path.Base(of)
	if kind != "manifests" && kind != "blobs" || !slices.Contains(images, title) {
		return asked
	}
	if kind == "manifests" && !strings.HasPrefix(reference, "sha256:") {
		reference = "latest"
	}
	return path.Join("/v2", title, kind, reference)
}

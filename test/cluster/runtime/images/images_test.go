package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/berth-project/berth/tools/image"
)

func TestKnown(t *testing.T) {
	images := []string{"nginx", "go-demo"}
	for asked, want := range map[string]string{
		"/v2/":                               "/v2/",
		"/v2/library/nginx/manifests/1.27":   "/v2/nginx/manifests/latest",
		"/v2/nginx/manifests/sha256:ab":      "/v2/nginx/manifests/sha256:ab",
		"/v2/a/b/go-demo/blobs/sha256:ab":    "/v2/go-demo/blobs/sha256:ab",
		"/v2/a/go-demo2/manifests/1k":        "/v2/a/go-demo2/manifests/1k",
		"/v2/nginx/tags/list":                "/v2/nginx/tags/list",
		"/v2/a/nginx/other/manifests/latest": "/v2/a/nginx/other/manifests/latest",
	} {
		if got := known(asked, images); got != want {
			t.Errorf("known(%s) = %s, want %s", asked, got, want)
		}
	}
}

func TestDependencies(t *testing.T) {
	const records = "Package: x\nDepends: libc6 (>= 2.36), libssl3 | libssl1, perl:any, adduser\nPre-Depends: libzstd1\nSuggests: libno\n\nPackage: y\nDepends: zlib1g\n"
	if diff := cmp.Diff([]string{"libc6", "libssl3", "perl", "adduser", "libzstd1", "zlib1g"}, dependencies([]byte(records))); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"libc6": true, "zlib1g": true, "perl": false, "libperl5.36": false, "adduser": false} {
		if isLibrary(name) != want {
			t.Errorf("isLibrary(%s) = %t", name, !want)
		}
	}
}

// TestMirror pulls an image by a name that users know, and pushes another image.
func TestMirror(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hello")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := ofProgram(program, image.Release{Version: "v7"})
	if err != nil {
		t.Fatal(err)
	}
	handler := registry.New(registry.Logger(discard()))
	if err := fill(t.Context(), handler, map[string]v1.Image{"hello": made}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror(handler, []string{"hello"}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	got := pull(t.Context(), t, host+"/some.example/team/hello:v7")
	want, err := made.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := got.Digest(); err != nil || digest != want {
		t.Errorf("pulled %v (%v), want %v", digest, err, want)
	}
	config, err := got.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/hello"}) || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("configuration %+v: %v", config, err)
	}
	ref, err := name.ParseReference(host+"/mine:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	other, err := mutate.Config(made, v1.Config{Cmd: []string{"other"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, other); err != nil {
		t.Fatal(err)
	}
	pull(t.Context(), t, host+"/mine:1")
	answer, err := http.Get(server.URL + "/v2/library/absent/manifests/latest")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("an image that does not exist: %s", answer.Status)
	}
}

func pull(ctx context.Context, t *testing.T, reference string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return pulled
}

// TestServesTheShippedImage pulls an image from the registry, and reads the archive that `make dist` makes of the same
// program. Both must have the same digest.
func TestServesTheShippedImage(t *testing.T) {
	content, release := []byte("#!"), image.Release{Version: "v1.2.3", Seconds: 1_700_000_000}
	program := filepath.Join(t.TempDir(), "berth")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := ofProgram(program, release)
	if err != nil {
		t.Fatal(err)
	}
	handler := registry.New(registry.Logger(discard()))
	if err := fill(t.Context(), handler, map[string]v1.Image{"berth": made}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror(handler, []string{"berth"}))
	defer server.Close()
	pulled := pull(t.Context(), t, strings.TrimPrefix(server.URL, "http://")+"/registry.example/berth:latest")
	got, err := pulled.Digest()
	if err != nil {
		t.Fatal(err)
	}

	shipped, err := release.Image("berth", architecture, content)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.Archive(&archive, "docker.io/library/berth", release.Version, []v1.Image{shipped}); err != nil {
		t.Fatal(err)
	}
	if want := digestIn(t, &archive); got != want {
		t.Errorf("the registry serves %v, and the archive has %v", got, want)
	}
	for what, other := range map[string]image.Release{
		"version": {Version: "v1.2.4", Seconds: release.Seconds}, "date": {Version: release.Version, Seconds: 1},
	} {
		changed, err := ofProgram(program, other)
		if err != nil {
			t.Fatal(err)
		}
		if digest, err := changed.Digest(); err != nil || digest == got {
			t.Errorf("another %s has the same digest %v: %v", what, digest, err)
		}
	}
}

// digestIn returns the digest of the only image of an archive.
func digestIn(t *testing.T, archive io.Reader) v1.Hash {
	t.Helper()
	dir := t.TempDir()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	names, err := outer.IndexManifest()
	if err != nil || len(names.Manifests) != 1 {
		t.Fatalf("names of the archive: %+v, %v", names, err)
	}
	inner, err := outer.ImageIndex(names.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := inner.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("images of the archive: %+v, %v", list, err)
	}
	return list.Manifests[0].Digest
}

// TestKeys checks that a packed image gets a new key when its recipe changes.
func TestKeys(t *testing.T) {
	first := recipes()[0]
	changed := recipes()[0]
	changed.files[0].Content = append([]byte("#"), changed.files[0].Content...)
	if first.key() != recipes()[0].key() || first.key() == changed.key() {
		t.Errorf("keys %s, %s, changed %s", first.key(), recipes()[0].key(), changed.key())
	}
}

package main

import (
	"context"
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
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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
	image, err := ofProgram(program)
	if err != nil {
		t.Fatal(err)
	}
	handler := registry.New(registry.Logger(discard()))
	if err := fill(t.Context(), handler, map[string]v1.Image{"hello": image}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror(handler, []string{"hello"}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	got := pull(t.Context(), t, host+"/some.example/team/hello:v7")
	want, err := image.Digest()
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
	other, err := mutate.Config(image, v1.Config{Cmd: []string{"other"}})
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
	image, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return image
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

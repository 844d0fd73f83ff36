package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestLayer checks that each directory precedes its files and appears once, and that the same content always gives the
// same layer.
func TestLayer(t *testing.T) {
	pack := func() []byte {
		l := NewLayer()
		for _, f := range []File{
			{Path: "a/b/c", Content: []byte("x"), Mode: 0o755},
			{Path: "a/b", Mode: 0o1777}, // Already in the layer.
			{Path: "a/link", Link: "b/c"},
			{Path: "a/b/c", Content: []byte("another")},
		} {
			if err := l.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		content, err := l.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	first := pack()
	if !bytes.Equal(first, pack()) {
		t.Error("the same content is two layers")
	}
	var got []string
	each(t, first, func(header *tar.Header, _ []byte) {
		got = append(got, header.FileInfo().Mode().String()+" "+header.Name)
	})
	want := []string{"drwxr-xr-x a/", "drwxr-xr-x a/b/", "-rwxr-xr-x a/b/c", "Lrwxrwxrwx a/link"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

// each calls do for every entry of a tar archive.
func each(t *testing.T, archive []byte, do func(*tar.Header, []byte)) {
	t.Helper()
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		do(header, content)
	}
}

// archive returns an archive of one program for two architectures.
func archive(t *testing.T) []byte {
	t.Helper()
	var images []v1.Image
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := OfProgram("hello", []byte("of "+architecture), []byte("licenses"), v1.ConfigFile{Architecture: architecture})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	var out bytes.Buffer
	if err := Archive(&out, "example.org/hello", "v1.2.3", images); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchive unpacks an archive and validates the layout against the specification: every digest and size, one image
// per architecture, and the names that container runtimes look up.
func TestArchive(t *testing.T) {
	packed, dir := archive(t), t.TempDir()
	if !bytes.Equal(packed, archive(t)) {
		t.Error("the same programs are two archives")
	}
	each(t, packed, func(header *tar.Header, content []byte) {
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	list, err := outer.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("the layout has %+v: %v", list, err)
	}
	names := map[string]string{annotationName: "example.org/hello:v1.2.3", annotationTag: "v1.2.3"}
	if diff := cmp.Diff(names, list.Manifests[0].Annotations); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	index, err := outer.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got[d.Platform.String()] = program(t, image)
	}
	const licenses = ", /usr/share/doc/hello/THIRD_PARTY_NOTICES: licenses"
	want := map[string]string{"linux/amd64": "/usr/bin/hello: of amd64" + licenses, "linux/arm64": "/usr/bin/hello: of arm64" + licenses}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
}

// TestRelease checks what an image says about its release.
func TestRelease(t *testing.T) {
	made, err := Release{Version: "v1.2.3", Seconds: 1_700_000_000}.Image("hello", "arm64", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		config.OS, config.Architecture, config.Created.UTC().Format(time.RFC3339),
		config.Config.Labels["org.opencontainers.image.title"], config.Config.Labels["org.opencontainers.image.version"],
	}
	if diff := cmp.Diff([]string{"linux", "arm64", "2023-11-14T22:13:20Z", "hello", "v1.2.3"}, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// program returns the path of the program that an image runs and the content of this program.
func program(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	stream, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	content, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	entry := config.Config.Entrypoint[0]
	found, licenses := "", ""
	each(t, content, func(header *tar.Header, content []byte) {
		if "/"+header.Name == entry && header.Mode == 0o755 {
			found = entry + ": " + string(content)
		}
		if path.Base(header.Name) == "THIRD_PARTY_NOTICES" {
			licenses = "/" + header.Name + ": " + string(content)
		}
	})
	return found + ", " + licenses
}

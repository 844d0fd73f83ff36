package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The annotations by which programs find an image in an archive: containerd uses the full name, podman and skopeo use
// the tag.
const (
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

// Archive writes images of several architectures under one name and tag, as a tar archive of an OCI layout.
func Archive(out io.Writer, name, tag string, images []v1.Image) error {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("layout of %s: %w", name, err)
	}
	err = path.AppendIndex(all, layout.WithAnnotations(map[string]string{annotationName: name + ":" + tag, annotationTag: tag}))
	if err != nil {
		return fmt.Errorf("layout of %s: %w", name, err)
	}
	return pack(out, os.DirFS(dir))
}

// pack writes the files of a tree in the order of their names, without owners and dates.
func pack(out io.Writer, tree fs.FS) error {
	archive := tar.NewWriter(out)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0)}
		if err := archive.WriteHeader(&header); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := io.Copy(archive, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return nil
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

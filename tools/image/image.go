// Package image makes container images without a container runtime. Files become a layer; a layer and a configuration
// become an image. Images of several architectures become an archive in the layout of the Open Container Initiative,
// which containerd, podman and skopeo read. The same input gives the same bytes: entries have no dates, and archives
// are sorted by name.
//
// `make dist` and the test cluster build their images with this package: of a program they are the same image, with the
// same digest. It is a separate module, so that neither of them affects the dependencies of the other.
package image

import (
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// search is the PATH of an image's programs.
const search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// OfProgram returns an image that has one static program in /usr/bin and runs it, with the licenses of the modules that
// are linked into the program, if any. config describes the image: its architecture and its labels.
func OfProgram(name string, binary, licenses []byte, config v1.ConfigFile) (v1.Image, error) {
	layer := NewLayer()
	files := []File{
		{Path: "usr/bin/" + name, Content: binary, Mode: 0o755},
		{Path: "tmp", Mode: 0o1777},
		{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/:/\nnobody:x:65534:65534::/:/\n")},
	}
	if licenses != nil {
		files = append(files, File{Path: "usr/share/doc/" + name + "/THIRD_PARTY_NOTICES", Content: licenses})
	}
	for _, f := range files {
		if err := layer.Add(f); err != nil {
			return nil, err
		}
	}
	config.Config.Entrypoint = []string{"/usr/bin/" + name}
	return Of(layer, config)
}

// Of returns an image of one layer and a configuration, in the media types of the Open Container Initiative.
func Of(layer *Layer, config v1.ConfigFile) (v1.Image, error) {
	content, err := layer.Bytes()
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	packed, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	whole, err := mutate.AppendLayers(base, packed)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	made, err := whole.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	// mutate.ConfigFile replaces the whole configuration, including the list of layers.
	config.OS, config.RootFS = "linux", made.RootFS
	config.Config.Env = append(config.Config.Env, search)
	finished, err := mutate.ConfigFile(whole, &config)
	if err != nil {
		return nil, fmt.Errorf("configuration of the image: %w", err)
	}
	return finished, nil
}

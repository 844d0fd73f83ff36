// Package image makes container images without a container runtime: files become one layer,
// a layer and a configuration an image, and images of several architectures an archive in the
// layout of the Open Container Initiative, which containerd, podman and skopeo read. The same
// input gives the same bytes: entries have no dates, and an archive is in the order of its names.
//
// What `make dist` ships and what the cluster of the tests runs come from here. It is a module of
// its own, so that neither of them decides about the dependencies of the other.
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

// search is where the programs of an image are looked for.
const search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// OfProgram is an image that has one static program in /usr/bin and runs it. The configuration
// says what the image is of: its architecture, its labels.
func OfProgram(name string, binary []byte, config v1.ConfigFile) (v1.Image, error) {
	layer := NewLayer()
	for _, f := range []File{
		{Path: "usr/bin/" + name, Content: binary, Mode: 0o755},
		{Path: "tmp", Mode: 0o1777},
		{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/:/\nnobody:x:65534:65534::/:/\n")},
	} {
		if err := layer.Add(f); err != nil {
			return nil, err
		}
	}
	config.Config.Entrypoint = []string{"/usr/bin/" + name}
	return Of(layer, config)
}

// Of is one layer with a configuration, in the media types of the Open Container Initiative.
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
	// ConfigFile replaces all there is, the list of layers too.
	config.OS, config.RootFS = "linux", made.RootFS
	config.Config.Env = append(config.Config.Env, search)
	finished, err := mutate.ConfigFile(whole, &config)
	if err != nil {
		return nil, fmt.Errorf("configuration of the image: %w", err)
	}
	return finished, nil
}

package image

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-project/berth/tools/image/notices"
)

// Release is what all images of a release have in common.
type Release struct {
	Version string
	Seconds int64 // The date, in seconds since 1970.
	// Modules is the directory of the module cache from which the programs were built. The images have the licenses of
	// the linked modules from there; none if it is empty, or if Go did not link the program.
	Modules string
}

// Image returns the image of a program of this release for one architecture. `make dist` archives it, and the registry
// of the test cluster serves it. The same program, version and date give the same digest in both.
func (r Release) Image(name, architecture string, binary []byte) (v1.Image, error) {
	var licenses []byte
	if r.Modules != "" {
		var err error
		if licenses, err = notices.Of(r.Modules, bytes.NewReader(binary)); err != nil && !errors.Is(err, notices.ErrProgram) {
			return nil, fmt.Errorf("image of %s for %s: %w", name, architecture, err)
		}
	}
	made, err := OfProgram(name, binary, licenses, v1.ConfigFile{
		Architecture: architecture,
		Created:      v1.Time{Time: time.Unix(r.Seconds, 0).UTC()},
		Config: v1.Config{Labels: map[string]string{
			"org.opencontainers.image.title":    name,
			"org.opencontainers.image.version":  r.Version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("image of %s for %s: %w", name, architecture, err)
	}
	return made, nil
}

package image

import (
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The most bytes that are shipped.
const (
	maxProgram = 60_000_000
	maxBeyond  = 5_000_000
)

// ErrLarge reports a program of more than 60 MB, or an image of more than 5 MB beyond its program.
var ErrLarge = errors.New("too large to ship")

// CheckSize returns ErrLarge if a program or its image is too large to ship. The size of an image is the sum of its
// unpacked layers: that is what it takes on a node.
func CheckSize(program int64, made v1.Image) error {
	if program > maxProgram {
		return fmt.Errorf("the program has %d bytes, at most are %d: %w", program, maxProgram, ErrLarge)
	}
	layers, err := made.Layers()
	if err != nil {
		return fmt.Errorf("layers of the image: %w", err)
	}
	var size int64
	for _, layer := range layers {
		unpacked, err := unpackedSize(layer)
		if err != nil {
			return err
		}
		size += unpacked
	}
	if size > program+maxBeyond {
		return fmt.Errorf("the image has %d bytes, its program %d and at most %d more: %w", size, program, maxBeyond, ErrLarge)
	}
	return nil
}

// unpackedSize returns the number of bytes of the archive in a layer.
func unpackedSize(layer v1.Layer) (int64, error) {
	stream, err := layer.Uncompressed()
	if err != nil {
		return 0, fmt.Errorf("unpack a layer: %w", err)
	}
	defer stream.Close()
	size, err := io.Copy(io.Discard, stream)
	if err != nil {
		return 0, fmt.Errorf("unpack a layer: %w", err)
	}
	return size, nil
}

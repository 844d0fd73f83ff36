package image

import (
	"bytes"
	"errors"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestCheckSize checks the limits of programs and images, from both sides. An image of zeros is small to pull, and
// large on a node.
func TestCheckSize(t *testing.T) {
	for _, c := range []struct {
		name    string
		program int64
		content []byte
		want    error
	}{
		{"small", 10, []byte("0123456789"), nil},
		{"as large as a program may be", maxProgram, []byte("x"), nil},
		{"a larger program", maxProgram + 1, []byte("x"), ErrLarge},
		{"almost 5 MB more", 0, make([]byte, maxBeyond-1<<20), nil},
		{"more than 5 MB more", 0, make([]byte, maxBeyond+1), ErrLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			made, err := OfProgram("hello", c.content, nil, v1.ConfigFile{Architecture: "amd64"})
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckSize(c.program, made); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestCheckSizeOfProgram checks that the image of a program as large as it may be is small enough.
func TestCheckSizeOfProgram(t *testing.T) {
	binary := bytes.Repeat([]byte{0}, maxProgram)
	made, err := Release{Version: "v1.2.3"}.Image("hello", "amd64", binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckSize(int64(len(binary)), made); err != nil {
		t.Error(err)
	}
}

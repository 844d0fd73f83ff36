package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// File is an entry of an image: a link, a file, or a directory if it has neither content nor a link.
type File struct {
	Path    string // Relative to the root.
	Content []byte
	Link    string
	Mode    int64 // If 0: 0644, or 0755 for a directory.
}

// Layer is the content of an image as a tar archive. Files belong to root and have no time, so that the same content
// always gives the same layer.
type Layer struct {
	content bytes.Buffer
	out     *tar.Writer
	seen    map[string]bool
}

// NewLayer returns an empty layer.
func NewLayer() *Layer {
	l := &Layer{seen: map[string]bool{}}
	l.out = tar.NewWriter(&l.content)
	return l
}

// Add adds a file, and its missing parent directories, to the layer. It ignores a file whose name is already in the
// layer.
func (l *Layer) Add(f File) error {
	header := tar.Header{Name: f.Path, Mode: f.Mode, Format: tar.FormatPAX}
	switch {
	case f.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
	case f.Content != nil:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(f.Content))
	default:
		header.Typeflag = tar.TypeDir
	}
	if header.Mode == 0 {
		header.Mode = 0o644
		if header.Typeflag == tar.TypeDir {
			header.Mode = 0o755
		}
	}
	return l.Write(&header, bytes.NewReader(f.Content))
}

// Write is like Add, but for an entry of another archive.
func (l *Layer) Write(header *tar.Header, content io.Reader) error {
	name := strings.Trim(path.Clean("/"+header.Name), "/")
	if name == "" || l.seen[name] {
		return nil
	}
	if parent := path.Dir(name); parent != "." && !l.seen[parent] {
		if err := l.Add(File{Path: parent}); err != nil {
			return err
		}
	}
	l.seen[name] = true
	header.Name = name
	if header.Typeflag == tar.TypeDir {
		header.Name += "/"
	}
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
	if err := l.out.WriteHeader(header); err != nil {
		return fmt.Errorf("layer: %s: %w", name, err)
	}
	if _, err := io.Copy(l.out, content); err != nil {
		return fmt.Errorf("layer: %s: %w", name, err)
	}
	return nil
}

// Bytes ends the layer and returns the archive.
func (l *Layer) Bytes() ([]byte, error) {
	if err := l.out.Close(); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return l.content.Bytes(), nil
}

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// layer is the content of an image as a tar archive. Files belong to root and have no time,
// so that the same content is the same layer.
type layer struct {
	out  *tar.Writer
	seen map[string]bool
}

func newLayer(out io.Writer) *layer {
	return &layer{out: tar.NewWriter(out), seen: map[string]bool{}}
}

// skipped is what no program needs to run.
func skipped(name string) bool {
	for _, prefix := range []string{
		"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/",
		"usr/share/bash-completion/", "usr/lib/x86_64-linux-gnu/gconv/", "etc/init.d/", "etc/systemd/", "lib/systemd/",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// add puts a file into the layer, and the directories above it, unless something of that name
// is there.
func (l *layer) add(f file) error {
	header := tar.Header{Name: f.path, Mode: f.mode, Format: tar.FormatPAX}
	switch {
	case f.link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
	case f.content != nil:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(f.content))
	default:
		header.Typeflag = tar.TypeDir
	}
	if header.Mode == 0 {
		header.Mode = 0o644
		if header.Typeflag == tar.TypeDir {
			header.Mode = 0o755
		}
	}
	return l.write(&header, bytes.NewReader(f.content))
}

func (l *layer) write(header *tar.Header, content io.Reader) error {
	name := strings.Trim(path.Clean("/"+header.Name), "/")
	if name == "" || l.seen[name] {
		return nil
	}
	if parent := path.Dir(name); parent != "." && !l.seen[parent] {
		if err := l.add(file{path: parent}); err != nil {
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
		return err
	}
	_, err := io.Copy(l.out, content)
	return err
}

// unpack adds the files of a Debian package.
func (l *layer) unpack(ctx context.Context, deb string) error {
	archive, err := output(ctx, ".", "dpkg-deb", "--fsys-tarfile", deb)
	if err != nil {
		return err
	}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", deb, err)
		}
		if skipped(strings.TrimPrefix(header.Name, "./")) {
			continue
		}
		if header.Typeflag == tar.TypeLink {
			header.Linkname = strings.TrimPrefix(header.Linkname, "./")
		}
		if err := l.write(header, reader); err != nil {
			return fmt.Errorf("pack %s of %s: %w", header.Name, deb, err)
		}
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-project/berth/tools/image"
)

// skipped reports whether a file is of no use to a running program.
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

// unpack adds the files of a Debian package to a layer.
func unpack(ctx context.Context, l *image.Layer, deb string) error {
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
		if err := l.Write(header, reader); err != nil {
			return fmt.Errorf("pack %s of %s: %w", header.Name, deb, err)
		}
	}
}

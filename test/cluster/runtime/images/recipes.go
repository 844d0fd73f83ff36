package main

import (
	_ "embed" // apache2.conf, nginx.conf
	"math/rand/v2"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-project/berth/tools/image"
)

// format is a part of the key of a packed image. Another number causes all images to be packed again.
const format = "1"

//go:embed apache2.conf
var apacheConfig []byte

//go:embed nginx.conf
var nginxConfig []byte

// recipe is an image of Debian packages.
type recipe struct {
	name     string
	packages []string // Together with the libraries that they depend on.
	config   v1.Config
	files    []image.File
}

// recipes returns the images that users of ACK and Koordinator know, and a load generator.
func recipes() []recipe {
	return []recipe{
		{
			name:     "nginx",
			packages: []string{"nginx", "nginx-common"},
			config:   v1.Config{Cmd: []string{"nginx", "-g", "daemon off;"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}, StopSignal: "SIGQUIT"},
			files: []image.File{
				{Path: "etc/nginx/nginx.conf", Content: nginxConfig},
				{Path: "etc/nginx/conf.d/default.conf", Content: []byte("server {\n\tlisten 80;\n\troot /usr/share/nginx/html;\n}\n")},
				{Path: "usr/share/nginx/html/index.html", Content: []byte("<!DOCTYPE html><title>nginx</title><h1>Welcome to nginx!</h1>\n")},
				{Path: "var/log/nginx/access.log", Link: "/dev/stdout"},
				{Path: "var/log/nginx/error.log", Link: "/dev/stderr"},
				{Path: "var/lib/nginx"},
			},
		},
		{
			// The server in Koordinator's page on CPU burst: 1 MiB, which a client may request compressed.
			name:     "apache-2-4-51-for-slo-test",
			packages: []string{"apache2-bin", "media-types"},
			config:   v1.Config{Cmd: []string{"httpd", "-D", "FOREGROUND"}, ExposedPorts: map[string]struct{}{"8010/tcp": {}}, StopSignal: "SIGWINCH"},
			files: []image.File{
				{Path: "usr/sbin/httpd", Link: "apache2"},
				{Path: "etc/apache2/apache2.conf", Content: apacheConfig},
				{Path: "var/www/static/file.1m.test", Content: words(1 << 20)},
			},
		},
		{
			name:     "redis",
			packages: []string{"redis-server", "redis-tools"},
			config:   v1.Config{Cmd: []string{"redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"}, ExposedPorts: map[string]struct{}{"6379/tcp": {}}},
		},
		{
			name:     "wrk",
			packages: []string{"wrk"},
			config:   v1.Config{Entrypoint: []string{"wrk"}},
		},
	}
}

// everyImage returns the files of every image: users, and the shell and tools of busybox.
func everyImage() []image.File {
	files := []image.File{
		{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nnginx:x:101:101::/nonexistent:/bin/false\nnobody:x:65534:65534::/nonexistent:/bin/false\n")},
		{Path: "etc/group", Content: []byte("root:x:0:\nwww-data:x:33:\nnginx:x:101:\nnogroup:x:65534:\n")},
		{Path: "etc/nsswitch.conf", Content: []byte("passwd: files\ngroup: files\nhosts: files dns\n")},
		{Path: "tmp", Mode: 0o1777},
		{Path: "run"},
		{Path: "root"},
		{Path: "proc"},
		{Path: "sys"},
		{Path: "dev"},
	}
	for _, tool := range []string{"sh", "cat", "ls", "ps", "wget", "grep", "sleep", "id", "env", "head", "taskset", "nproc"} {
		files = append(files, image.File{Path: "bin/" + tool, Link: "busybox"})
	}
	return files
}

// shell is the package of the shell in every image.
const shell = "busybox-static"

// words returns a number of bytes of constant text that compresses about as well as real text.
func words(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for text.Len() < size {
		for range 2 + random.IntN(9) {
			text.WriteByte(byte('a' + random.IntN(26)))
		}
		text.WriteByte(" \n"[random.IntN(12)/11])
	}
	return []byte(text.String()[:size])
}

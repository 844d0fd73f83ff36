package transport

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
)

// image imports an image with one static program at /program, named berth.test/NAME:1.
func (n *node) image(name, program string) {
	n.t.Helper()
	binary, err := os.ReadFile(program)
	if err != nil {
		n.t.Fatal(err)
	}
	layer := archive(n, file{"program", binary, 0o755})
	config := document(n, map[string]any{
		"architecture": goruntime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/program"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := document(n, []map[string]any{{
		"Config": "config.json", "RepoTags": []string{"berth.test/" + name + ":1"}, "Layers": []string{"layer.tar"},
	}})
	packed := archive(n, file{"config.json", config, 0o644}, file{"layer.tar", layer, 0o644}, file{"manifest.json", manifest, 0o644})
	ctr := exec.Command(n.programs.Ctr, "--address", n.path("containerd.sock"), "--namespace", "k8s.io", "images", "import", "--local", "--snapshotter", "native", "-")
	ctr.Stdin = bytes.NewReader(packed)
	if said, err := ctr.CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %v\n%s", ctr, err, said)
	}
}

type file struct {
	name    string
	content []byte
	mode    int64
}

func archive(n *node, files ...file) []byte {
	n.t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			n.t.Fatal(err)
		}
		if _, err := w.Write(f.content); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		n.t.Fatal(err)
	}
	return out.Bytes()
}

func document(n *node, v any) []byte {
	n.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		n.t.Fatal(err)
	}
	return text
}

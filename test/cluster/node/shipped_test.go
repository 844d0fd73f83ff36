package node

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

// shippedImages packs archives as `make dist` does. Their images have the digests of those that the registry serves.
// The test imports the archives into the node's runtime, as docs/install.md says for nodes without a registry, and
// starts pods that may pull nothing.
func (s *stage) shippedImages(t *testing.T) {
	release := s.programs.Release
	for _, c := range []struct{ name, program, argument, says string }{
		{"berth", s.programs.Berth, "version", release.Version},
		{"berth-scheduler", s.programs.Scheduler, "--version", "+berth."},
	} {
		t.Run(c.name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), c.name+"-oci.tar")
			pack := exec.CommandContext(t.Context(), s.programs.Pack, archive, c.name, release.Version,
				strconv.FormatInt(release.Seconds, 10), "amd64="+c.program, "arm64="+c.program)
			if out, err := pack.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", pack, err, out)
			}
			if packed, served := digestOf(t, archive, "amd64"), servedDigest(t, c.name); packed != served {
				t.Errorf("make dist packs the image %s, and the registry serves %s", packed, served)
			}
			s.imported(t, archive, c.name+":"+release.Version)
			s.create(t, podOf("shipped-"+c.name, func(p *v1.Pod) {
				p.Spec.RestartPolicy = v1.RestartPolicyNever
				p.Spec.Containers[0].Image = c.name + ":" + release.Version
				p.Spec.Containers[0].ImagePullPolicy = v1.PullNever
				p.Spec.Containers[0].Args = []string{c.argument}
			}))
			s.eventually(t, "pod shipped-"+c.name+" ends", func() string {
				p, err := s.get(t, "shipped-"+c.name)
				if err != nil || p.Status.Phase == v1.PodSucceeded {
					return text(err)
				}
				return fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.ContainerStatuses)
			})
			if log := s.kubectl(t, "logs", "-n", space, "shipped-"+c.name); !strings.Contains(log, c.says) {
				t.Errorf("%s %s prints %q, want %q in it", c.name, c.argument, log, c.says)
			}
		})
	}
}

// imported imports an archive into the runtime, which must have the image then, and removes the image after the test.
func (s *stage) imported(t *testing.T, archive, image string) {
	t.Helper()
	ctr := func(ctx context.Context, args ...string) string {
		cmd := exec.CommandContext(ctx, s.programs.Ctr, append([]string{
			"--address", local.NodePath("/run/containerd/containerd.sock"), "-n", "k8s.io", "images",
		}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	name := "docker.io/library/" + image
	if strings.Contains(ctr(t.Context(), "ls", "-q"), name+"\n") {
		t.Fatalf("the runtime has %s already", name)
	}
	ctr(t.Context(), "import", archive)
	t.Cleanup(func() { ctr(context.WithoutCancel(t.Context()), "rm", "--sync", name) })
	if list := ctr(t.Context(), "ls", "-q"); !strings.Contains(list, name+"\n") {
		t.Fatalf("the runtime has no %s:\n%s", name, list)
	}
}

// servedDigest returns the digest of an image that the cluster's registry serves.
func servedDigest(t *testing.T, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+local.Registry+"/v2/"+name+"/manifests/latest", http.NoBody)
	must(t, err)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer answer.Body.Close()
	manifest, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s\n%s", request.URL, answer.Status, manifest)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(manifest))
}

// descriptors are the entries of an index of the Open Container Initiative.
type descriptors struct {
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			Architecture string `json:"architecture"`
		} `json:"platform"`
	} `json:"manifests"`
}

// digestOf returns the digest of the image of an architecture in an archive, which has one index under one name.
func digestOf(t *testing.T, archive, architecture string) string {
	t.Helper()
	var outer, inner descriptors
	must(t, json.Unmarshal(entryOf(t, archive, "index.json"), &outer))
	if len(outer.Manifests) != 1 {
		t.Fatalf("%s has %+v", archive, outer)
	}
	blob := "blobs/" + strings.Replace(outer.Manifests[0].Digest, ":", "/", 1)
	must(t, json.Unmarshal(entryOf(t, archive, blob), &inner))
	for _, image := range inner.Manifests {
		if image.Platform.Architecture == architecture {
			return image.Digest
		}
	}
	t.Fatalf("%s has no image for %s: %+v", archive, architecture, inner)
	return ""
}

// entryOf returns a file of an archive.
func entryOf(t *testing.T, archive, name string) []byte {
	t.Helper()
	file, err := os.Open(archive)
	must(t, err)
	defer file.Close()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s has no file %s", archive, name)
		}
		must(t, err)
		if header.Name == name {
			content, err := io.ReadAll(reader)
			must(t, err)
			return content
		}
	}
}

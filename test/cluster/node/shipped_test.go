package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
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
			digests, err := pack.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", pack, err, digests)
			}
			if served := servedDigest(t, c.name); !strings.Contains(string(digests), "amd64 "+served+"\n") {
				t.Errorf("the registry serves %s, and make dist packs\n%sIf another commit started this cluster, run: make cluster-down", served, digests)
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

// imported imports an archive into the runtime, which must have the image then. It removes the image before, in case an
// earlier test was killed, and after the test.
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
	remove := func(ctx context.Context) { ctr(ctx, "rm", "--sync", name) } // Without an error if there is none.
	remove(t.Context())
	ctr(t.Context(), "import", archive)
	t.Cleanup(func() { remove(context.WithoutCancel(t.Context())) })
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

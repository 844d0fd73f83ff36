package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-project/berth/test/cluster/controlplane"
)

// TestControlPlane checks the documented behavior of package controlplane with the real programs.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := t.Context()
	s.apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: b}\n")

	for name, config := range map[string]func() (string, error){
		"user": func() (string, error) {
			config, err := s.As("bob", "team")
			must(t, err)
			client, _ := clients(t, config)
			_, err = client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return `User "bob"`, err
		},
		"service account": func() (string, error) {
			config, err := s.AsServiceAccount(ctx, "default", "x")
			must(t, err)
			client, _ := clients(t, config)
			_, err = client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return `User "system:serviceaccount:default:x"`, err
		},
	} {
		who, err := config()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s without rights: %v", name, err)
		}
		mustContain(t, err, who)
	}
	fromFile, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	must(t, err)
	client, _ := clients(t, fromFile)
	_, err = client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	must(t, err)

	must(t, s.PauseAPIServer())
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	_, err = client.CoreV1().ConfigMaps("default").Get(short, "kept", metav1.GetOptions{})
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server answers: %v", err)
	}
	must(t, s.ResumeAPIServer())

	if err := s.StartAPIServer(ctx); !errors.Is(err, controlplane.ErrState) {
		t.Errorf("second start: %v", err)
	}
	must(t, s.StopAPIServer())
	must(t, s.StopAPIServer())
	if err := s.Alive(); !errors.Is(err, controlplane.ErrState) {
		t.Errorf("Alive() of a stopped server: %v", err)
	}
	if err := s.PauseAPIServer(); !errors.Is(err, controlplane.ErrState) {
		t.Errorf("pause of a stopped server: %v", err)
	}
	must(t, s.StartAPIServer(ctx))
	must(t, s.Alive())
	if _, err = client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	must(t, s.Stop())
	if left := running(t, s.Dir()); len(left) > 0 {
		t.Errorf("Stop leaves %q", left)
	}
	if _, err := os.Stat(strings.TrimPrefix(s.Etcd(), "unix://")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stop leaves etcd's socket: %v", err)
	}
}

// servesDefinitions requests objects of new kinds as soon as Apply has returned from their definitions. If the server
// did not serve a kind yet, it would answer 404.
func (s *stand) servesDefinitions(t *testing.T) {
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.test.berth.io}
spec:
  group: test.berth.io
  scope: Cluster
  names: {kind: K%[1]s, plural: %[1]ss}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
	group := schema.GroupVersion{Group: "test.berth.io", Version: "v1"}
	for i := range 10 {
		kind := fmt.Sprintf("kind%d", i)
		s.apply(t, fmt.Sprintf(definition, kind))
		kinds := s.dynamic.Resource(group.WithResource(kind + "s"))
		if _, err := kinds.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// running returns the command lines of processes that were started with a file in a directory.
func running(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), dir) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// TestControlPlaneThatCannotStart checks that a failed start reports the reason and leaves no process.
func TestControlPlaneThatCannotStart(t *testing.T) {
	servers := built(t).Programs
	for _, test := range []struct {
		name     string
		programs controlplane.Programs
		flags    []string
		want     error
		says     string
	}{
		{"no etcd", controlplane.Programs{Etcd: "/nowhere/etcd", APIServer: servers.APIServer}, nil, controlplane.ErrProgram, "/nowhere/etcd"},
		{"no API server", controlplane.Programs{Etcd: servers.Etcd, APIServer: "/nowhere/api"}, nil, controlplane.ErrProgram, "/nowhere/api"},
		{"a wrong flag", servers, []string{"--no-such-flag"}, controlplane.ErrEnded, "unknown flag: --no-such-flag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := controlplane.Start(t.Context(), dir, test.programs, test.flags...)
			if !errors.Is(err, test.want) {
				t.Errorf("Start() = %v, want %v", err, test.want)
			}
			mustContain(t, err, test.says)
			if left := running(t, dir); len(left) > 0 {
				t.Errorf("it leaves %q", left)
			}
		})
	}
	t.Run("no time", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // Time is up once the API server has started, which needs seconds until it is ready.
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, "kube-apiserver.log")); err == nil {
					cancel()
				}
				sleep(ctx, time.Millisecond)
			}
		}()
		_, err := controlplane.Start(ctx, dir, servers)
		if !errors.Is(err, controlplane.ErrNotReady) || !errors.Is(err, context.Canceled) {
			t.Errorf("Start() = %v, want %v", err, controlplane.ErrNotReady)
		}
		if left := running(t, dir); len(left) > 0 {
			t.Errorf("it leaves %q", left)
		}
	})
}

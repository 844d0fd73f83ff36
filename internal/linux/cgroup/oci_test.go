package cgroup

import (
	"errors"
	"testing"
)

func TestRuntimePath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/kubepods/burstable/pod1-2/abc", "kubepods/burstable/pod1-2/abc"},
		{"/kubelet/kubepods/pod1/crio-abc", "kubelet/kubepods/pod1/crio-abc"},
		{"kubepods/pod1/abc", "kubepods/pod1/abc"},
		{"/k8s.io/a:b", "k8s.io/a:b"},
		{
			"kubepods-burstable-pod1_2.slice:cri-containerd:abc",
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-abc.scope",
		},
		{
			"kubelet-kubepods-pod1.slice:crio:abc",
			"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/crio-abc.scope",
		},
		{":docker:abc", "system.slice/docker-abc.scope"},
		{"-.slice:cri:abc", "cri-abc.scope"},
		{"a.slice::abc", "a.slice/abc.scope"},
	} {
		if got, err := RuntimePath(c.in); err != nil || got != c.want {
			t.Errorf("RuntimePath(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "/", "a:b:c", "a--b.slice:p:n", "-a.slice:p:n", ".slice:p:n", "/a\nb"} {
		if got, err := RuntimePath(bad); !errors.Is(err, ErrBadPath) {
			t.Errorf("RuntimePath(%q) = %q, %v; want ErrBadPath", bad, got, err)
		}
	}
}

func TestParentPath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/kubepods/besteffort/pod1", "kubepods/besteffort/pod1"},
		{"kubepods-besteffort-pod1.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"},
		{"/kubepods.slice/kubepods-pod1.slice", "kubepods.slice/kubepods-pod1.slice"},
		{"", ""},
	} {
		if got, err := ParentPath(c.in); err != nil || got != c.want {
			t.Errorf("ParentPath(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	if got, err := ParentPath("/a/b--c.slice"); !errors.Is(err, ErrBadPath) {
		t.Errorf("ParentPath of a slice that cannot be = %q, %v; want ErrBadPath", got, err)
	}
}

func TestReconcile(t *testing.T) {
	for _, c := range []struct{ said, seen, want string }{
		{"kubepods/pod1/abc", "kubepods/pod1/abc", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "kubepods/pod1/abc/init.scope", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "docker/node1/kubepods/pod1/abc", "docker/node1/kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "docker/node1/kubepods/pod1/abc/container", "docker/node1/kubepods/pod1/abc"},
		{"docker/node1/kubepods/pod1/abc", "kubepods/pod1/abc", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "user.slice/other", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "kubepods/pod1/abcd", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "xkubepods/pod1/abc", "kubepods/pod1/abc"},
		{"kubepods/pod1/abc", "", "kubepods/pod1/abc"},
	} {
		if got := reconcile(c.said, c.seen); got != c.want {
			t.Errorf("reconcile(%q, %q) = %q; want %q", c.said, c.seen, got, c.want)
		}
	}
}

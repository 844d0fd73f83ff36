package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/cli/fleet"
)

// areFollowed shows the cluster's page to users with all rights and to users with too few.
func (v *viewers) areFollowed(a *agentSide) func(t *testing.T) {
	return func(t *testing.T) {
		a.s.forwards(t, "n")
		a.s.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: look}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [list, watch]}
- {apiGroups: [berth.dev], resources: [nodetopologies], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: list}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [list]}
- {apiGroups: [berth.dev], resources: [nodetopologies], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: podless}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
- {apiGroups: [berth.dev], resources: [nodetopologies], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases, namespace: berth-system}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leases, namespace: berth-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}
subjects: [{kind: User, name: all}]
`)
		for role, user := range map[string]string{"look": "all", "list": "lists", "podless": "podless"} {
			a.s.apply(t, fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %[1]s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}\nsubjects: [{kind: User, name: %[2]s}]\n", role, user))
		}
		follow := func(user string) (*fleet.Cluster, error) {
			config, err := a.s.As(user)
			must(t, err)
			return fleet.Follow(t.Context(), config, slog.New(slog.NewTextHandler(t.Output(), nil)))
		}
		lists := followed(t, follow, "lists")
		until(t, lists, func(v *view.Cluster) string {
			return unsaid(v.Problems, `cannot list resource "leases"`, `cannot watch resource "nodes"`, `cannot watch resource "pods"`, `cannot watch resource "nodetopologies"`)
		})
		for user, wants := range map[string][]string{
			"nobody":  {"list nodes of ", `User "nobody" cannot list resource "nodes"`},
			"podless": {"list pods of ", `User "podless" cannot list resource "pods"`},
		} {
			within(t, func() string { // The server learns of the rights a moment later.
				c, err := follow(user)
				if err == nil {
					c.Close()
					return user + " follows the cluster"
				}
				if !apierrors.IsForbidden(err) {
					return err.Error()
				}
				return unsaid([]string{err.Error()}, wants...)
			})
		}
		c := followed(t, follow, "all")
		until(t, c, func(v *view.Cluster) string {
			if i := slices.IndexFunc(v.Nodes, func(n view.Node) bool { return n.Name == "n" }); i < 0 || len(v.Problems) > 0 {
				return fmt.Sprintf("nodes %+v, problems %q", v.Nodes, v.Problems)
			}
			return ""
		})
		pods := a.s.client.CoreV1().Pods("default")
		pod := podObject("too-large", "4000", "4000")
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		must(t, err)
		until(t, c, func(v *view.Cluster) string {
			i := slices.IndexFunc(v.Pending, func(p view.Pending) bool { return p.Pod == "too-large" })
			if i < 0 {
				return "the pod is not shown"
			}
			return unsaid([]string{v.Pending[i].Why}, "nodes are available", "Insufficient cpu")
		})
		must(t, pods.Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
		until(t, c, func(v *view.Cluster) string {
			if slices.ContainsFunc(v.Pending, func(p view.Pending) bool { return p.Pod == "too-large" }) {
				return "the pod that has gone is shown"
			}
			return ""
		})
		v.opens(t, a, c)
	}
}

// followed returns the cluster as a user sees it, once the server knows the user's rights.
func followed(t *testing.T, follow func(string) (*fleet.Cluster, error), user string) *fleet.Cluster {
	t.Helper()
	var c *fleet.Cluster
	within(t, func() string {
		var err error
		if c, err = follow(user); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Cleanup(c.Close)
	return c
}

func until(t *testing.T, c *fleet.Cluster, what func(*view.Cluster) string) {
	t.Helper()
	within(t, func() string { return what(c.View()) })
}

// unsaid reports the first of wants that no text contains.
func unsaid(texts []string, wants ...string) string {
	for _, want := range wants {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) {
			return fmt.Sprintf("no %q in %q", want, texts)
		}
	}
	return ""
}

// opens requests a node's page from the cluster's page.
func (v *viewers) opens(t *testing.T, a *agentSide, c *fleet.Cluster) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, l) }()
	local := &viewers{address: l.Addr().String()}
	within(t, func() string {
		status, text := local.ask(t, "/nodes/n/api/v1/view", "")
		if status != http.StatusBadGateway || !strings.Contains(text, fleet.ErrNoAgent.Error()) {
			return fmt.Sprintf("without an agent: %d %s", status, text)
		}
		return ""
	})
	v.agentRuns(t, a.s, "berth-agent-third")
	for path, want := range map[string]string{"/": `src="cluster.js"`, "/nodes/n/": `src="main.js"`, "/api/v1/view": `"name":"n"`} {
		if status, text := local.ask(t, path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	within(t, func() string {
		if status, text := local.ask(t, "/nodes/n/api/v1/view", ""); status != http.StatusOK || text != "page" {
			return fmt.Sprintf("view: %d %q", status, text)
		}
		return ""
	})
	if status, _ := local.ask(t, "/nodes/none/", ""); status != http.StatusNotFound {
		t.Errorf("a node that is none: %d", status)
	}
	cancel()
	must(t, <-served)
}

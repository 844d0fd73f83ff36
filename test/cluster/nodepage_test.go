package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/cli/fleet"
)

// loopback forwards to a port of this machine, as a container runtime does for a pod in the
// host's network.
type loopback struct{}

func (loopback) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // It returns when either side ends.
		_ = conn.Close()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

// forwards makes this test the kubelet of a node for port forwarding, with the server code that kubelets and container
// runtimes use.
func (s *stand) forwards(t *testing.T, node string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, loopback{}, "agent", "", options, time.Minute, time.Minute, []string{portforward.ProtocolV1Name})
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, port)
	_, err = s.client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	must(t, err)
}

// areProxied shows a node's page to users with all rights and to users with too few.
func (v *viewers) areProxied(a *agentSide) func(t *testing.T) {
	return func(t *testing.T) {
		ctx := t.Context()
		a.s.forwards(t, "n")
		a.s.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: find, namespace: berth-system}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: forward, namespace: berth-system}
rules: [{apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: token, namespace: berth-system}
rules: [{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [berth-viewer], verbs: [create]}]
`)
		for role, users := range map[string]string{
			"find":    "[{kind: User, name: all}, {kind: User, name: finds}, {kind: User, name: forwards}, {kind: User, name: asks}]",
			"forward": "[{kind: User, name: all}, {kind: User, name: forwards}]",
			"token":   "[{kind: User, name: all}, {kind: User, name: asks}, {kind: User, name: blind}]",
		} {
			a.s.apply(t, fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: %[1]s, namespace: berth-system}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}\nsubjects: %[2]s\n", role, users))
		}
		open := func(user, node string) (*fleet.Page, error) {
			config, err := a.s.As(user)
			must(t, err)
			return fleet.Open(ctx, config, node, slog.New(slog.NewTextHandler(t.Output(), nil)))
		}
		within(t, func() string { // The server learns of the rights a moment later.
			if _, err := open("all", "n"); !errors.Is(err, fleet.ErrNoAgent) {
				return fmt.Sprintf("without an agent: %v", err)
			}
			return ""
		})
		ends := v.agentRuns(t, a.s, "berth-agent-first")
		for user, wants := range map[string][]string{
			"nobody":   {`User "nobody" cannot create resource "serviceaccounts/token"`, "berth-system"},
			"blind":    {`User "blind" cannot list resource "pods"`, "berth-system"},
			"finds":    {`User "finds" cannot create resource "serviceaccounts/token"`, "berth-viewer"},
			"forwards": {`User "forwards" cannot create resource "serviceaccounts/token"`, "berth-viewer"},
			"asks":     {`User "asks" cannot get resource "pods/portforward"`, "berth-agent-first"},
		} {
			_, err := open(user, "n")
			mustContain(t, err, wants...)
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", user, err)
			}
		}
		if _, err := open("all", "other"); !errors.Is(err, fleet.ErrNoAgent) {
			t.Errorf("another node: %v", err)
		}
		var page *fleet.Page
		within(t, func() string {
			var err error
			if page, err = open("all", "n"); err != nil {
				return err.Error()
			}
			return ""
		})
		v.serves(t, page, func() { // Another agent replaces this one.
			ends()
			v.agentRuns(t, a.s, "berth-agent-second")
		})
	}
}

// agentRuns creates a pod that looks like the agent of node n to its users, until end is called or the test ends.
func (v *viewers) agentRuns(t *testing.T, s *stand, name string) (end func()) {
	t.Helper()
	_, port, err := net.SplitHostPort(v.address)
	must(t, err)
	pod := podObject(name, "50m", "50m")
	pod.Namespace, pod.Spec.ServiceAccountName, pod.Spec.NodeName = "berth-system", agentAccount, "n"
	pod.Labels = map[string]string{"app.kubernetes.io/name": "berth-agent"}
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/readyz", Port: intstr.Parse(port)}}}
	pods := s.client.CoreV1().Pods("berth-system")
	_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	end = sync.OnceFunc(func() {
		must(t, pods.Delete(context.WithoutCancel(t.Context()), pod.Name, *metav1.NewDeleteOptions(0)))
	})
	t.Cleanup(end)
	_, err = pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	return end
}

// serves requests the page and the agent's data from a server on the user's own computer.
func (v *viewers) serves(t *testing.T, page *fleet.Page, replace func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- page.Serve(ctx, l) }()
	local := &viewers{address: l.Addr().String()}
	for i := range 4 {
		if i == 2 {
			replace()
		}
		if status, text := local.ask(t, window.ViewPath, ""); status != http.StatusOK || text != "page" {
			t.Errorf("page: %d %q", status, text)
		}
	}
	if status, text := local.ask(t, window.PastPath, ""); status != http.StatusOK || text != strings.Repeat("large", 1<<18) {
		t.Errorf("large: %d, %d bytes", status, len(text))
	}
	if status, text := local.ask(t, "/", ""); status != http.StatusOK || !strings.Contains(text, `src="main.js"`) {
		t.Errorf("the page is not this program's: %d %q", status, text)
	}
	if status, _ := local.ask(t, "/", "", http.MethodPost); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	answer, err := http.Get("http://" + local.address + "/") //nolint:noctx // bounded by the test's own time limit
	must(t, err)
	must(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	if policies := answer.Header.Values("Content-Security-Policy"); len(policies) != 1 {
		t.Errorf("policies %q", policies)
	}
	cancel()
	must(t, <-served)
}

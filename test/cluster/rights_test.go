package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestShippedRightsSuffice makes the scheduler use all its functions with only the shipped rights: elect a leader,
// bind, preempt, report reasons, and authorize readers of its metrics. The end of the test checks its log for forbidden
// requests.
func TestShippedRightsSuffice(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "vm-2s2n-smt"))
	f.apply(t, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n")
	port := freePort(t)
	kubeconfig := filepath.Join(f.Dir(), "scheduler.kubeconfig") // A scheduler in a pod finds this by itself.
	f.flags = []string{
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(f.Dir(), "scheduler"),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}
	sched := f.startScheduler(t, "scheduler", sideBySide, withLeaders)
	f.add(t, pinnedPod("low", 4), podObject("yes", "1", "1", annotated("cpuset-scheduler", "yes")))
	f.boundCount(t, "low", 1)
	f.boundCount(t, "yes", 1)
	f.add(t, pinnedPod("high", 4, withPriority("urgent")))
	f.boundCount(t, "high", 1)
	f.add(t, pinnedPod("late", 4)) // Not earlier: it could be bound in the gap, and be preempted next.
	f.reason(t, "late", "0/1 nodes are available")
	f.warned(t.Context(), t, "yes", "InvalidPolicy")

	var status int
	var text string
	// The server may answer before it has read which authority signs the certificates of clients.
	within(t, func() string {
		if status, text = f.metrics(t, port, true); status == http.StatusForbidden || status == http.StatusUnauthorized {
			return fmt.Sprintf("metrics for an administrator: status %d", status)
		}
		return ""
	})
	if status != http.StatusOK || !strings.Contains(text, "\nberth_scheduler_") {
		t.Errorf("metrics for an administrator: status %d, %d bytes, berth_scheduler_ in it: %t", status, len(text), strings.Contains(text, "\nberth_scheduler_"))
	}
	if status, _ := f.metrics(t, port, false); status != http.StatusForbidden && status != http.StatusUnauthorized {
		t.Errorf("metrics for an unknown user: status %d", status)
	}
	must(t, sched.Alive())
}

// freePort returns a free port for a scheduler's own server.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

// metrics reads the scheduler's metrics, with or without the administrator's certificate.
func (f *field) metrics(t *testing.T, port string, admin bool) (status int, text string) {
	t.Helper()
	config := f.Config()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // It is self-signed.
	defer transport.CloseIdleConnections()
	if admin {
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		must(t, err)
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	within(t, func() string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+"/metrics", http.NoBody)
		must(t, err)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		must(t, err)
		status, text = answer.StatusCode, string(content)
		return ""
	})
	return status, text
}

// TestShipped checks the shipped objects on one control plane: the definition, the rights, and finally all manifests
// together.
func TestShipped(t *testing.T) {
	t.Parallel()
	s := installed(t)
	t.Run("NodeTopology", s.definesNodeTopology)
	t.Run("definitions are served at once", s.servesDefinitions)
	t.Run("the scheduler's rights are few", s.schedulerMayLittle)
	s.shipped(t, "agent/rbac.yaml")
	t.Run("the agent's rights are few", s.agentMayLittle)
	s.shipped(t, "agent/config.yaml", "uninstall/rbac.yaml")
	t.Run("the uninstall's rights suffice, and are few", s.uninstalls)
	t.Run("all manifests", s.acceptsManifests)
}

// schedulerMayLittle asks the API server which requests RBAC permits to the scheduler's account.
func (s *stand) schedulerMayLittle(t *testing.T) {
	for _, test := range []struct {
		verb, group, resource, subresource string
		want                               bool
	}{
		{"create", "", "pods", "binding", true},
		{"watch", "berth.dev", "nodetopologies", "", true},
		{"watch", "coordination.k8s.io", "leases", "", true},
		{"patch", "", "pods", "", false},
		{"update", "", "pods", "", false},
		{"create", "", "pods", "", false},
		{"get", "", "secrets", "", false},
		{"list", "", "configmaps", "", false},
		{"update", "", "nodes", "", false},
		{"create", "berth.dev", "nodetopologies", "", false},
		{"update", "berth.dev", "nodetopologies", "", false},
		{"update", "berth.dev", "nodetopologies", "status", false},
		{"update", "coordination.k8s.io", "leases", "", false},
		{"impersonate", "", "users", "", false},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "", false},
	} {
		got, err := s.may(t.Context(), test.verb, test.group, test.resource, test.subresource)
		must(t, err)
		if got != test.want {
			t.Errorf("%s %s/%s in group %q: allowed is %t, want %t", test.verb, test.resource, test.subresource, test.group, got, test.want)
		}
	}
}

// may reports whether the scheduler's account may do something in Berth's namespace.
func (s *stand) may(ctx context.Context, verb, group, resource, subresource string) (bool, error) {
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User:   schedulerUser,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + schedulerNamespace, "system:authenticated"},
		ResourceAttributes: &authorization.ResourceAttributes{
			Namespace: schedulerNamespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Version: "*",
		},
	}}
	answer, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("may the scheduler %s %s: %w", verb, resource, err)
	}
	return answer.Status.Allowed, nil
}

// TestLeaderFrozen freezes the leader during its work, for longer than its lease, and resumes it when the other replica
// has finished the work. Decisions that the first leader had not yet written must have no effect.
func TestLeaderFrozen(t *testing.T) {
	t.Parallel()
	f := newField(t, recorded(t, "two-socket-ht"), recorded(t, "ccx-nps1"))
	replicas := map[string]*scheduler{}
	for _, name := range []string{"replica-a", "replica-b"} {
		replicas[name] = f.startScheduler(t, name, sideBySide, withLeaders)
	}
	f.add(t, many("before", 4, 2)...)
	f.boundCount(t, "before", 4)
	leader := replicas[f.leader(t, replicas, map[string]int{})]
	f.add(t, many("late", 20, 2)...)
	must(t, leader.Freeze())
	f.boundCount(t, "late", 20)
	f.add(t, many("after", 4, 2)...)
	f.boundCount(t, "after", 4)
	must(t, leader.thaw())
	within(t, func() string {
		if leader.Alive() == nil {
			return "the old leader still runs"
		}
		return ""
	})
	f.boundCount(t, "", 28)
	if waits := f.journal.count(func(pod *v1.Pod) bool { return !isBound(pod) }); waits != 0 {
		t.Errorf("%d pods wait", waits)
	}
}

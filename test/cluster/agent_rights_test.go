package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
	side "github.com/berth-project/berth/internal/node/cluster"
)

const agentAccount = "berth-agent"

// agentStand is a stand with the nodes n and other, the shipped objects for agents, and both policies in effect.
func agentStand(t *testing.T) *stand {
	t.Helper()
	s := installed(t)
	s.shipped(t, "agent/rbac.yaml", "agent/viewer.yaml", "agent/policy.yaml", "policy/placement.yaml")
	machine := recorded(t, "two-socket-ht")
	for _, name := range []string{"n", "other"} {
		s.createNode(t.Context(), t, nodeObject(name, machine))
	}
	loose, _ := clients(t, s.agentToken(t, nil))
	within(t, func() string {
		_, err := loose.CoordinationV1().Leases(leaseNamespace).Create(t.Context(), leaseObject("n"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && isPolicy(err) {
			return ""
		}
		return "the policy is not in force"
	})
	return s
}

// isPolicy reports whether the admission policy refused the request, rather than RBAC.
func isPolicy(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && containsAll(status.Status().Message, "ValidatingAdmissionPolicy", "agent.berth.dev")
}

// agentToken returns a client configuration with a token of the agents' account, bound to an object.
func (s *stand) agentToken(t *testing.T, bound *authentication.BoundObjectReference) *rest.Config {
	t.Helper()
	return s.tokenOf(t, agentAccount, bound)
}

// tokenOf returns a client configuration with a token of a service account.
func (s *stand) tokenOf(t *testing.T, account string, bound *authentication.BoundObjectReference) *rest.Config {
	t.Helper()
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{BoundObjectRef: bound}}
	answer, err := s.client.CoreV1().ServiceAccounts("berth-system").CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	must(t, err)
	config := s.Config()
	config.CertData, config.KeyData = nil, nil
	config.BearerToken = answer.Status.Token
	return config
}

// agentOn returns the client configuration of a node's agent: the token of its pod, bound to the pod and through it to
// the node.
func (s *stand) agentOn(t *testing.T, node string) *rest.Config {
	t.Helper()
	pod := podObject("agent-"+node, "50m", "50m")
	pod.Namespace, pod.Spec.ServiceAccountName, pod.Spec.NodeName = "berth-system", agentAccount, node
	made, err := s.client.CoreV1().Pods("berth-system").Create(t.Context(), pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = s.client.CoreV1().Pods("berth-system").Get(t.Context(), pod.Name, metav1.GetOptions{})
	}
	must(t, err)
	config := s.agentToken(t, &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: made.Name, UID: made.UID})
	if got, err := side.NodeOfToken(config); err != nil || got != node {
		t.Errorf("the token says it is of node %q: %v", got, err)
	}
	return config
}

func leaseObject(name string) *coordination.Lease {
	now := metav1.NowMicro()
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{HolderIdentity: &name, RenewTime: &now}}
}

// agentMayLittle asks the API server which requests RBAC permits to the agents' account.
func (s *stand) agentMayLittle(t *testing.T) {
	for _, test := range []struct {
		verb, group, resource, subresource, name, namespace string
		want                                                bool
	}{
		{"list", "", "pods", "", "", "", true},
		{"watch", "", "pods", "", "", "", true},
		{"patch", "", "pods", "status", "", "", true},
		{"get", "", "nodes", "pods", "", "", true},
		{"get", "", "nodes", "configz", "", "", true},
		{"watch", "", "configmaps", "", "cfs-quota-burst-cm", "koordinator-system", true},
		{"update", "berth.dev", "nodetopologies", "status", "", "", true},
		{"update", "coordination.k8s.io", "leases", "", "", "berth-system", true},
		{"create", "events.k8s.io", "events", "", "", "shop", true},
		{"create", "authentication.k8s.io", "tokenreviews", "", "", "", true},
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", true},

		{"patch", "", "pods", "", "", "", false},
		{"update", "", "pods", "", "", "", false},
		{"update", "", "pods", "status", "", "", false},
		{"create", "", "pods", "", "", "", false},
		{"create", "", "pods", "exec", "", "", false},
		{"create", "", "pods", "binding", "", "", false},
		{"delete", "", "pods", "", "", "", false},
		{"get", "", "nodes", "proxy", "", "", false},
		{"create", "", "nodes", "proxy", "", "", false},
		{"patch", "", "nodes", "", "", "", false},
		{"patch", "", "nodes", "status", "", "", false},
		{"get", "", "secrets", "", "", "", false},
		{"list", "", "secrets", "", "", "", false},
		{"list", "", "configmaps", "", "", "", false},
		{"list", "", "configmaps", "", "other", "kube-system", false},
		{"update", "", "configmaps", "", "berth-config", "berth-system", false},
		{"delete", "berth.dev", "nodetopologies", "", "", "", false},
		{"list", "berth.dev", "nodetopologies", "", "", "", false},
		{"update", "coordination.k8s.io", "leases", "", "", "kube-node-lease", false},
		{"update", "coordination.k8s.io", "leases", "", "", "kube-system", false},
		{"list", "coordination.k8s.io", "leases", "", "", "berth-system", false},
		{"create", "", "serviceaccounts", "token", "berth-agent", "berth-system", false},
		{"create", "", "serviceaccounts", "token", "berth-viewer", "berth-system", false},
		{"impersonate", "", "users", "", "", "", false},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "", "", "", false},
		{"update", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", "", false},
	} {
		answer, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:berth-system:" + agentAccount,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"},
			ResourceAttributes: &authorization.ResourceAttributes{
				Verb: test.verb, Group: test.group, Resource: test.resource, Subresource: test.subresource, Name: test.name, Namespace: test.namespace, Version: "*",
			},
		}}, metav1.CreateOptions{})
		must(t, err)
		if answer.Status.Allowed != test.want {
			t.Errorf("%+v: allowed is %t", test, answer.Status.Allowed)
		}
	}
}

// agentClient is a client of one agent.
type agentClient struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

func (s *stand) agentClient(t *testing.T, config *rest.Config) agentClient {
	t.Helper()
	client, dynamic := clients(t, config)
	return agentClient{client, dynamic}
}

// patchStatus patches a pod through its status subresource.
func (a agentClient) patchStatus(ctx context.Context, pod string, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = a.CoreV1().Pods("default").Patch(ctx, pod, types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// boundPod creates a pod that is bound to a node.
func (s *stand) boundPod(t *testing.T, name, node string, options ...podOption) *v1.Pod {
	t.Helper()
	pod := pinnedPod(name, 2, options...)
	pod.Spec.NodeName = node
	made, err := create(t.Context(), s.client, pod)
	must(t, err)
	return made
}

// TestAgentWrites makes agents write with the shipped rights, and then with every right. The admission policy must
// protect other nodes in both cases.
func TestAgentWrites(t *testing.T) {
	t.Parallel()
	s := agentStand(t)
	t.Run("for its node only", s.agentWritesForItsNode)
	must(t, s.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	t.Run("no more with more rights", s.agentPolicyHolds)
}

// agentWritesForItsNode tries every permitted write, for the agent's own node and for another node, with the token of
// an agent's pod.
func (s *stand) agentWritesForItsNode(t *testing.T) {
	ctx, machine := t.Context(), recorded(t, "two-socket-ht")
	mine, loose := s.agentClient(t, s.agentOn(t, "n")), s.agentClient(t, s.agentToken(t, nil))
	pod := s.boundPod(t, "mine", "n", annotated("kept", "as it is"))
	s.boundPod(t, "theirs", "other")
	const why = "agent.berth.dev"

	annotations := func(key string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
	}
	placement := annotations(v1alpha1.AnnotationPlacement, somePlacement)
	withUID := annotations(v1alpha1.AnnotationPlacement, somePlacement+" ")
	withUID["metadata"].(map[string]any)["uid"] = string(pod.UID)
	wrongUID := annotations(v1alpha1.AnnotationPlacement, "{}")
	wrongUID["metadata"].(map[string]any)["uid"] = "another"

	must(t, mine.patchStatus(ctx, "mine", placement))
	must(t, mine.patchStatus(ctx, "mine", withUID))
	if err := mine.patchStatus(ctx, "mine", wrongUID); !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		t.Errorf("a patch of another pod of that name: %v", err)
	}
	must(t, mine.patchStatus(ctx, "mine", annotations(v1alpha1.AnnotationPlacement, nil)))
	must(t, mine.patchStatus(ctx, "mine", annotations("koordinator.sh/memory-locality-status", "{ }")))
	must(t, mine.patchStatus(ctx, "mine", annotations(v1alpha1.AnnotationMove, "{}")))
	must(t, mine.patchStatus(ctx, "mine", annotations(v1alpha1.AnnotationMove, nil)))
	must(t, mine.patchStatus(ctx, "mine", placement))
	locality := annotations("koordinator.sh/memory-locality-status", "{}") // The other policy permits it.
	mustContain(t, mine.patchStatus(ctx, "theirs", locality), why, "only allowed for pods on its own node, n")
	mustContain(t, loose.patchStatus(ctx, "mine", locality), why, "names a node")
	for _, err := range []error{mine.patchStatus(ctx, "theirs", placement), loose.patchStatus(ctx, "mine", placement)} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("another node's placement: %v", err)
		}
	}
	for what, patch := range map[string]map[string]any{
		"phase":      {"status": map[string]any{"phase": "Failed"}},
		"conditions": {"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}},
		"addresses":  {"status": map[string]any{"podIP": "10.0.0.1"}},
		"annotation": annotations("another", "x"),
		"changed":    annotations("kept", "x"),
		"removed":    annotations("kept", nil),
		"burst":      annotations(v1alpha1.AnnotationCPUBurst, `{"policy":"auto"}`),
		"label":      {"metadata": map[string]any{"labels": map[string]any{"a": "b"}}},
		"finalizer":  {"metadata": map[string]any{"finalizers": []any{"berth.dev/x"}}},
	} {
		if err := mine.patchStatus(ctx, "mine", patch); err == nil || !isPolicy(err) {
			t.Errorf("%s through the status: %v", what, err)
		}
	}

	topologies := mine.dynamic.Resource(nodeTopologies())
	made, err := topologies.Create(ctx, toUnstructured(t, topologyObject("n", machine)), metav1.CreateOptions{})
	must(t, err)
	made.Object["status"] = toUnstructured(t, topologyObject("n", machine)).Object["status"]
	made, err = topologies.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	must(t, err)
	_, err = topologies.Update(ctx, made, metav1.UpdateOptions{})
	must(t, err)
	_, err = topologies.Create(ctx, toUnstructured(t, topologyObject("other", machine)), metav1.CreateOptions{})
	mustContain(t, err, why, "only allowed for its own node, n")
	s.putTopology(t, topologyObject("other", machine))
	theirs, err := topologies.Get(ctx, "other", metav1.GetOptions{})
	must(t, err)
	for _, write := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := topologies.Update(ctx, theirs, metav1.UpdateOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := topologies.UpdateStatus(ctx, theirs, metav1.UpdateOptions{})
			return err
		},
	} {
		mustContain(t, write(ctx), why, "only allowed for its own node, n")
	}
	_, err = loose.dynamic.Resource(nodeTopologies()).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	mustContain(t, err, why, "names a node")

	leases := mine.CoordinationV1().Leases(leaseNamespace)
	lease, err := leases.Create(ctx, leaseObject("n"), metav1.CreateOptions{})
	must(t, err)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	must(t, err)
	for _, name := range []string{"other", "berth-scheduler"} {
		_, err = leases.Create(ctx, leaseObject(name), metav1.CreateOptions{})
		mustContain(t, err, why, "only allowed for its own node, n")
		theirs, err := s.client.CoordinationV1().Leases(leaseNamespace).Create(ctx, leaseObject(name), metav1.CreateOptions{})
		must(t, err)
		_, err = leases.Update(ctx, theirs, metav1.UpdateOptions{})
		mustContain(t, err, why, "only allowed for its own node, n")
	}
	s.agentEvents(t, mine, pod)
}

// agentEvents creates events in the agent's own name and in the names of other programs.
func (s *stand) agentEvents(t *testing.T, mine agentClient, pod *v1.Pod) {
	event := func(name, controller, instance string) *events.Event {
		return &events.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, EventTime: metav1.NowMicro(), Action: "A", Reason: "CPUPinned", Note: "x", Type: v1.EventTypeNormal,
			ReportingController: controller, ReportingInstance: instance,
			Regarding: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: pod.Name, UID: pod.UID},
		}
	}
	for name, test := range map[string]struct{ controller, instance, want string }{
		"own":        {side.Controller, "n", ""},
		"kubelet":    {"kubelet", "n", "only allowed as reportingController"},
		"other-node": {side.Controller, "other", "only allowed as reportingController"},
		"a-part":     {side.Controller, "nn", "only allowed as reportingController"},
	} {
		_, err := mine.EventsV1().Events("default").Create(t.Context(), event(name, test.controller, test.instance), metav1.CreateOptions{})
		if test.want == "" {
			must(t, err)
			continue
		}
		mustContain(t, err, "agent.berth.dev", test.want)
	}
}

// agentPolicyHolds gives every right to the agents' account. The policy must still permit the agent's usual writes and
// refuse all other writes of the resources that it covers. The NodeTopology n exists.
func (s *stand) agentPolicyHolds(t *testing.T) {
	s.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: too-much}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: berth-agent, namespace: berth-system}
`)
	ctx, mine := t.Context(), s.agentClient(t, s.agentOn(t, "n"))
	pod := s.boundPod(t, "mine", "n")
	loose, err := create(ctx, s.client, podObject("loose", "1", "1"))
	must(t, err)
	_, err = s.client.CoordinationV1().Leases("kube-system").Create(ctx, leaseObject("n"), metav1.CreateOptions{})
	must(t, err)
	within(t, func() string { // The server learns of the new right a moment later.
		if _, err := mine.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	pods, unplaced := mine.CoreV1().Pods("default"), binding(loose, "n")
	unplaced.Annotations = nil
	for what, write := range map[string]func() error{
		"create of a pod": func() error {
			_, err := pods.Create(ctx, podObject("made", "1", "1"), metav1.CreateOptions{})
			return err
		},
		"update of a pod": func() error { _, err := pods.Update(ctx, pod, metav1.UpdateOptions{}); return err },
		"delete of a pod": func() error { return pods.Delete(ctx, "mine", metav1.DeleteOptions{}) },
		"delete of pods":  func() error { return pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) },
		"eviction": func() error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "default"}})
		},
		"binding": func() error { return pods.Bind(ctx, unplaced, metav1.CreateOptions{}) },
		"exec": func() error {
			return mine.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("mine").SubResource("exec").
				Param("command", "id").Param("stdout", "true").Do(ctx).Error()
		},
		"delete of a NodeTopology": func() error { return mine.dynamic.Resource(nodeTopologies()).Delete(ctx, "n", metav1.DeleteOptions{}) },
		"a Lease of another namespace": func() error {
			lease, err := mine.CoordinationV1().Leases("kube-system").Get(ctx, "n", metav1.GetOptions{})
			must(t, err)
			_, err = mine.CoordinationV1().Leases("kube-system").Update(ctx, lease, metav1.UpdateOptions{})
			return err
		},
		"an event of the old kind": func() error {
			_, err := mine.CoreV1().Events("default").Create(ctx, &v1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}, InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "mine"},
				Source: v1.EventSource{Component: "kubelet", Host: "n"}, Reason: "Killing",
			}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := write(); err == nil || !isPolicy(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, mine.patchStatus(ctx, "mine", map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationPlacement: somePlacement}}}))
}

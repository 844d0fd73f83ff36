package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/api/v1alpha1"
)

// userRights are more rights than users normally have: the policies must protect pods where RBAC does not.
const userRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: user}
rules:
- {apiGroups: [""], resources: [pods, pods/status, pods/binding, bindings, pods/ephemeralcontainers, pods/resize], verbs: ["*"]}
- {apiGroups: [apps, batch], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: user}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: user}
subjects:
- {kind: User, name: user, apiGroup: rbac.authorization.k8s.io}
- {kind: ServiceAccount, name: berth-agent, namespace: berth-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: berth-agent, namespace: berth-system}
`

const somePlacement = `{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-3","mems":"0","policy":"exclusive"}}}`

// actors are clients of the users that the policies distinguish.
type actors struct {
	*stand
	user, scheduler kubernetes.Interface
}

// TestPolicies applies one policy after the other to a control plane, and tests each as soon as it is in effect,
// together with the earlier ones.
func TestPolicies(t *testing.T) {
	t.Parallel()
	a := judged(t)
	a.putNode(t, "n", recorded(t, "two-socket-ht"))
	a.putNode(t, "other", recorded(t, "two-socket-ht"))
	a.shipped(t, "policy/placement.yaml")
	a.inForce(t, refused, pinnedPod("forged", 4, annotated(v1alpha1.AnnotationPlacement, somePlacement)))
	t.Run("only scheduler and agent write placements", a.placementsAreWritten)
	t.Run("bound pods", a.boundPodsStay)
	t.Run("moves", a.movesAreAskedFor)
	t.Run("who repacks writes nothing else", a.repackersOnlyAsk)
	a.shipped(t, "policy/raise-requests.yaml")
	a.inForce(t, func(made *v1.Pod, err error) bool {
		return err == nil && made.Spec.Containers[0].Resources.Requests.Cpu().Value() == 4
	}, podObject("raised", "1", "4", annotated(v1alpha1.AnnotationCPUSetScheduler, "true")))
	t.Run("requests are raised", a.requestsAreRaised)
	t.Run("whole pods are not raised", a.wholePodsAreNotRaised)
	old, err := create(t.Context(), a.user, podObject("from-before", "1", "1", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes")))
	must(t, err)
	a.shipped(t, "policy/keys.yaml")
	a.keysInForce(t)
	t.Run("bad keys are refused", a.badKeysAreRefused)
	t.Run("a pod from before", func(t *testing.T) { a.oldPodChanges(t, old) })
	t.Run("controllers", a.controllersGoOn)
}

// judged returns a stand with clients of the users that the policies distinguish.
func judged(t *testing.T) actors {
	t.Helper()
	a := actors{stand: installed(t)}
	a.apply(t, userRights)
	config, err := a.As("user")
	must(t, err)
	a.user, _ = clients(t, config)
	a.scheduler, _ = clients(t, a.schedulerConfig(t))
	return a
}

// inForce waits until the server enforces a new policy: it then refuses or changes the given pod.
func (a actors) inForce(t *testing.T, sign func(*v1.Pod, error) bool, pod *v1.Pod) {
	t.Helper()
	within(t, func() string {
		made, err := a.user.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if sign(made, err) {
			return ""
		}
		return "the policy is not in force"
	})
}

func refused(_ *v1.Pod, err error) bool { return err != nil }

// keysInForce waits for both policies of keys.yaml, for pods and for templates, because the server activates each
// separately.
func (a actors) keysInForce(t *testing.T) {
	t.Helper()
	bad := podObject("bad", "1", "1", annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"))
	a.inForce(t, refused, bad)
	within(t, func() string {
		_, err := a.user.AppsV1().Deployments(bad.Namespace).Create(t.Context(), deploymentOf(bad), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refused(nil, err) {
			return ""
		}
		return "the policy of templates is not in force"
	})
}

// templateOf returns the template of such pods, with a label for a selector.
func templateOf(pod *v1.Pod) v1.PodTemplateSpec {
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "tried"}, Annotations: pod.Annotations}, Spec: pod.Spec}
	template.Spec.TerminationGracePeriodSeconds = nil
	maps.Copy(template.Labels, pod.Labels)
	return template
}

// deploymentOf returns a Deployment of such pods.
func deploymentOf(pod *v1.Pod) *apps.Deployment {
	return &apps.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "tried"},
		Spec:       apps.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "tried"}}, Template: templateOf(pod)},
	}
}

func create(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) (*v1.Pod, error) {
	return client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// annotate patches one annotation of a pod, or of one of its subresources; nil removes it.
func annotate(ctx context.Context, client kubernetes.Interface, name string, value any, subresources ...string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationPlacement: value}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	return err
}

// binding returns a binding of a pod with a placement.
func binding(pod *v1.Pod, node string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
			Annotations: map[string]string{v1alpha1.AnnotationPlacement: somePlacement},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: node},
	}
}

// placementsAreWritten checks that only the scheduler and the agent can write placements.
func (a actors) placementsAreWritten(t *testing.T) {
	forged := annotated(v1alpha1.AnnotationPlacement, somePlacement)
	const why = "annotation berth.dev/placement"
	ctx := t.Context()

	_, err := create(ctx, a.user, pinnedPod("forged", 4, forged))
	mustContain(t, err, "forbidden", why)
	_, err = create(ctx, a.client, pinnedPod("forged", 4, forged)) // Not even an administrator.
	mustContain(t, err, "forbidden", why)

	pod, err := create(ctx, a.user, pinnedPod("mine", 4))
	must(t, err)
	mustContain(t, annotate(ctx, a.user, "mine", somePlacement), why)
	mustContain(t, annotate(ctx, a.user, "mine", somePlacement, "status"), why)
	err = a.user.CoreV1().Pods("default").Bind(ctx, binding(pod, "n"), metav1.CreateOptions{})
	mustContain(t, err, why)

	must(t, a.scheduler.CoreV1().Pods("default").Bind(ctx, binding(pod, "n"), metav1.CreateOptions{}))
	pod, err = a.user.CoreV1().Pods("default").Get(ctx, "mine", metav1.GetOptions{})
	must(t, err)
	if pod.Spec.NodeName != "n" || pod.Annotations[v1alpha1.AnnotationPlacement] != somePlacement {
		t.Errorf("bound to %q with %q", pod.Spec.NodeName, pod.Annotations[v1alpha1.AnnotationPlacement])
	}
	mustContain(t, annotate(ctx, a.user, "mine", nil), why)
	mustContain(t, annotate(ctx, a.user, "mine", "{}"), why)
	pod.Labels = map[string]string{"harmless": "true"}
	if _, err := a.user.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a change beside the placement: %v", err)
	}
	a.agentsWriteTheirOwn(t, why)
}

// movesAreAskedFor checks that only users who may repack the pod's node, and the node's agent, can write the annotation
// that requests a move.
func (a actors) movesAreAskedFor(t *testing.T) {
	const why, move = "annotation berth.dev/move", `{"v":1,"from":"0-3","to":"4-7"}`
	ctx := t.Context()
	a.apply(t, repackRights)
	config, err := a.As("repacker")
	must(t, err)
	repacker, _ := clients(t, config)
	write := func(client kubernetes.Interface, name string, value any) error {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationMove: value}}})
		must(t, err)
		_, err = client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
		return err
	}
	for name, node := range map[string]string{"here": "n", "there": "other"} {
		pod, err := create(ctx, a.user, pinnedPod(name, 4))
		must(t, err)
		mustContain(t, write(repacker, name, move), why) // on no node yet
		must(t, a.scheduler.CoreV1().Pods("default").Bind(ctx, binding(pod, node), metav1.CreateOptions{}))
	}
	_, err = create(ctx, a.user, pinnedPod("forged", 4, annotated(v1alpha1.AnnotationMove, move)))
	mustContain(t, err, "forbidden", why)
	mustContain(t, write(a.user, "here", move), "forbidden", why)
	mustContain(t, write(repacker, "there", move), "forbidden", why)
	must(t, write(repacker, "here", move))
	must(t, write(a.client, "there", move)) // an administrator
	mustContain(t, write(a.user, "here", nil), why)
	mustContain(t, write(a.agent(t, "other"), "here", nil), why)
	must(t, write(a.agent(t, "n"), "here", nil))
}

// repackersOnlyAsk checks that a holder of the shipped role can write only this annotation into the status of pods,
// whether they are on a node or not. Users who may update the whole status must stay unrestricted.
func (a actors) repackersOnlyAsk(t *testing.T) {
	const why, move = "nothing but the annotation berth.dev/move", `{"v":1,"from":"0-3","to":"4-7"}`
	ctx := t.Context()
	a.shipped(t, "repack.yaml")
	a.apply(t, repackerBinding)
	var holders [2]kubernetes.Interface
	for i, name := range []string{"holder", "editor"} {
		config, err := a.As(name)
		must(t, err)
		holders[i], _ = clients(t, config)
	}
	holder, editor := holders[0], holders[1]
	for name, node := range map[string]string{"repacked": "n", "unbound": ""} {
		pod, err := create(ctx, a.user, pinnedPod(name, 4, annotated("example.com/kept", "x"), func(p *v1.Pod) { p.Finalizers = []string{"example.com/kept"} }))
		must(t, err)
		if node != "" {
			must(t, a.scheduler.CoreV1().Pods("default").Bind(ctx, binding(pod, node), metav1.CreateOptions{}))
		}
	}
	write := func(client kubernetes.Interface, name, patch string) error {
		_, err := client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	encoded, err := json.Marshal(move)
	must(t, err)
	asks := `"berth.dev/move":` + string(encoded)
	tries := 0
	within(t, func() string {
		tries++ // a write that changes nothing is never refused
		if err := write(holder, "unbound", fmt.Sprintf(`{"metadata":{"annotations":{"example.com/early":"%d"}}}`, tries)); err != nil {
			return ""
		}
		return "the policy is not in force"
	})
	for _, change := range []string{
		`"status":{"phase":"Failed"}`,
		`"status":{"conditions":[{"type":"Ready","status":"True"}]}`,
		`"metadata":{"labels":{"app":"other"}}`,
		`"metadata":{"finalizers":null}`,
		`"metadata":{"annotations":{"example.com/note":"x"}}`,
		`"metadata":{"annotations":{"example.com/kept":null}}`,
	} {
		mustContain(t, write(holder, "repacked", "{"+change+"}"), "forbidden", why)
		mustContain(t, write(holder, "unbound", "{"+change+"}"), "forbidden", why)
	}
	mustContain(t, write(holder, "repacked", `{"metadata":{"annotations":{`+asks+`}},"status":{"phase":"Failed"}}`), "forbidden", why)
	mustContain(t, write(holder, "repacked", `{"metadata":{"annotations":{`+asks+`,"example.com/note":"x"}}}`), "forbidden", why)
	must(t, write(holder, "repacked", `{"metadata":{"annotations":{`+asks+`}}}`))
	must(t, write(holder, "repacked", `{"metadata":{"annotations":{"berth.dev/move":null}}}`))
	for _, client := range []kubernetes.Interface{editor, a.user, a.client} {
		must(t, write(client, "repacked", `{"metadata":{"annotations":{"example.com/note":"x"}},"status":{"message":"y"}}`))
		must(t, write(a.client, "repacked", `{"metadata":{"annotations":{"example.com/note":null}},"status":{"message":null}}`))
	}
}

// repackerBinding gives the shipped role to two users; one of them may write the status of pods anyway.
const repackerBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: holders-repack}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-repack}
subjects:
- {kind: User, name: holder, apiGroup: rbac.authorization.k8s.io}
- {kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writes-status}
rules:
- {apiGroups: [""], resources: [pods/status], verbs: [update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writes-status}
subjects:
- {kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}
`

// repackRights are the rights of a user who may repack only one node.
const repackRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: repacker}
rules:
- {apiGroups: [""], resources: [pods/status], verbs: [patch]}
- {apiGroups: [berth.dev], resources: [nodetopologies], resourceNames: ["n"], verbs: [repack]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: repacker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: repacker}
subjects:
- {kind: User, name: repacker, apiGroup: rbac.authorization.k8s.io}
`

// agentsWriteTheirOwn checks that an agent can write only for pods of its own node.
func (a actors) agentsWriteTheirOwn(t *testing.T, why string) {
	for node, want := range map[string]string{"n": "", "other": why, "": why} {
		err := annotate(t.Context(), a.agent(t, node), "mine", somePlacement+" ")
		if want == "" {
			must(t, err)
			must(t, annotate(t.Context(), a.agent(t, node), "mine", somePlacement))
			continue
		}
		mustContain(t, err, want)
	}
}

// agent returns a client with a token of the agent's account, bound to a node if given.
func (a actors) agent(t *testing.T, node string) kubernetes.Interface {
	t.Helper()
	request := &authentication.TokenRequest{}
	if node != "" {
		object, err := a.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		must(t, err)
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: object.UID}
	}
	answer, err := a.client.CoreV1().ServiceAccounts("berth-system").CreateToken(t.Context(), "berth-agent", request, metav1.CreateOptions{})
	must(t, err)
	config := a.Config()
	config.CertData, config.KeyData = nil, nil
	config.BearerToken = answer.Status.Token
	client, _ := clients(t, config)
	return client
}

func (a actors) badKeysAreRefused(t *testing.T) {
	on := annotated(v1alpha1.AnnotationCPUSetScheduler, "true")
	for _, test := range []struct {
		name    string
		options []podOption
		want    string // A part of the refusal; accepted if empty.
	}{
		{"plain", nil, ""},
		{"on", []podOption{on}, ""},
		{"off", []podOption{annotated(v1alpha1.AnnotationCPUSetScheduler, "false")}, ""},
		{"yes", []podOption{annotated(v1alpha1.AnnotationCPUSetScheduler, "yes")}, `value "yes": allowed: "true", "false"`},
		{"case", []podOption{annotated(v1alpha1.AnnotationCPUSetScheduler, "True")}, `value "True"`},
		{"burst", []podOption{on, annotated(v1alpha1.AnnotationCPUPolicy, "static-burst")}, ""},
		{"burst alone", []podOption{annotated(v1alpha1.AnnotationCPUPolicy, "static-burst")}, "only allowed with cpuset-scheduler"},
		{"other policy", []podOption{on, annotated(v1alpha1.AnnotationCPUPolicy, "dynamic")}, `value "dynamic": allowed: "static-burst"`},
		{"class", []podOption{labelled(v1alpha1.LabelQoSClass, "LSR")}, ""},
		{"burst by class", []podOption{labelled(v1alpha1.LabelQoSClass, "LSE"), annotated(v1alpha1.AnnotationCPUPolicy, "static-burst")}, ""},
		{"other class", []podOption{labelled(v1alpha1.LabelQoSClass, "gold")}, `value "gold": allowed: LSE, LSR, LS, BE, SYSTEM`},
		{"offline and pinned", []podOption{on, labelled(v1alpha1.LabelQoSClass, "BE")}, "koordinator.sh/qosClass"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podObject("tried", "1", "1", test.options...)
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			_, asPod := a.user.CoreV1().Pods("default").Create(t.Context(), pod, dry)
			_, asTemplate := a.user.AppsV1().Deployments("default").Create(t.Context(), deploymentOf(pod), dry)
			if test.want == "" {
				must(t, asPod)
				must(t, asTemplate)
				return
			}
			mustContain(t, asPod, test.want)
			mustContain(t, asTemplate, test.want)
		})
	}
}

// oldPodChanges checks that a pod from before the policy can still change in ways that the policy does not cover.
func (a actors) oldPodChanges(t *testing.T, old *v1.Pod) {
	old.Labels = map[string]string{"harmless": "true"}
	if _, err := a.user.CoreV1().Pods("default").Update(t.Context(), old, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a pod from before the policy cannot be changed: %v", err)
	}
}

func (a actors) requestsAreRaised(t *testing.T) {
	on := annotated(v1alpha1.AnnotationCPUSetScheduler, "true")
	for _, test := range []struct {
		name string
		pod  *v1.Pod
		want []string // Requests of the containers, then of the init containers.
	}{
		{"raised", podObject("a", "1", "4", on), []string{"4"}},
		{"in milli", podObject("a", "1", "4000m", on), []string{"4"}},
		{"equal", podObject("a", "4", "4", on), []string{"4"}},
		{"by class", podObject("a", "1", "4", labelled(v1alpha1.LabelQoSClass, "LSR")), []string{"4"}},
		{"not asked", podObject("a", "1", "4"), []string{"1"}},
		{"off", podObject("a", "1", "4", annotated(v1alpha1.AnnotationCPUSetScheduler, "false"), labelled(v1alpha1.LabelQoSClass, "LSR")), []string{"1"}},
		{"fraction", podObject("a", "1", "2500m", on), []string{"1"}},
		{"no limit", podObject("a", "1", "", on), []string{"1"}},
		{"some", podObject("a", "1", "4", on, withContainers(container("b", "100m", "500m"), container("c", "1", "2"))), []string{"4", "100m", "2"}},
		{"sidecars", podObject("a", "1", "4", on, withSidecar(container("sidecar", "100m", "2")), withInit(container("init", "100m", "3"))), []string{"4", "2", "100m"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			made, err := a.user.CoreV1().Pods("default").Create(t.Context(), test.pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			must(t, err)
			var got []string
			for _, c := range append(made.Spec.Containers, made.Spec.InitContainers...) {
				got = append(got, c.Resources.Requests.Cpu().String())
			}
			if len(got) != len(test.want) {
				t.Fatalf("requests %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("requests %v, want %v", got, test.want)
					break
				}
			}
		})
	}
}

// acceptsManifests checks that the API server accepts all manifests of deploy/.
func (s *stand) acceptsManifests(t *testing.T) {
	s.shipped(t, "scheduler/deployment.yaml", "scheduler/side-by-side.yaml", "scheduler/replace.yaml", "policy/*.yaml", "agent/*.yaml")
}

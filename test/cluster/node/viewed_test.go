package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/controlplane"
	"github.com/berth-project/berth/test/cluster/local"
)

// Users of the page. Each of the first three lacks one right more on the way to the agent.
const (
	viewer   = "berth-e2e-viewer"   // Has all rights of docs/web.md.
	noPort   = "berth-e2e-no-port"  // May not forward a port.
	noToken  = "berth-e2e-no-token" // May not request a token either.
	stranger = "berth-e2e-stranger" // Has no rights.
	viewers  = "berth-e2e=viewed"   // The label of their rights.
)

// rights are those of docs/web.md: for the page of the cluster, and for the way to an agent.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: berth-e2e-look, labels: {berth-e2e: viewed}}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [list, watch]}
- {apiGroups: [berth.dev], resources: [nodetopologies], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-e2e-look, labels: {berth-e2e: viewed}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-e2e-look}
subjects: [{kind: User, name: berth-e2e-viewer}, {kind: User, name: berth-e2e-no-port}, {kind: User, name: berth-e2e-no-token}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: berth-e2e-leases, namespace: berth-system, labels: {berth-e2e: viewed}}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: berth-e2e-leases, namespace: berth-system, labels: {berth-e2e: viewed}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-e2e-leases}
subjects: [{kind: User, name: berth-e2e-viewer}, {kind: User, name: berth-e2e-no-port}, {kind: User, name: berth-e2e-no-token}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: berth-e2e-token, namespace: berth-system, labels: {berth-e2e: viewed}}
rules: [{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [berth-viewer], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: berth-e2e-token, namespace: berth-system, labels: {berth-e2e: viewed}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-e2e-token}
subjects: [{kind: User, name: berth-e2e-viewer}, {kind: User, name: berth-e2e-no-port}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: berth-e2e-forward, namespace: berth-system, labels: {berth-e2e: viewed}}
rules: [{apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: berth-e2e-forward, namespace: berth-system, labels: {berth-e2e: viewed}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-e2e-forward}
subjects: [{kind: User, name: berth-e2e-viewer}]
`

// viewed pins a pod, and looks at it as users with a kubeconfig do: page, top, status and topology. Each must show the
// CPUs of the pod's control group. Users who lack a right must read which.
func (s *stage) viewed(t *testing.T) {
	must(t, controlplane.Apply(t.Context(), s.c.Config(), []byte(rights)))
	t.Cleanup(func() { // A borrowed cluster stays.
		ctx, none, labelled := context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: viewers}
		rbac := s.client.RbacV1()
		must(t, errors.Join(
			rbac.ClusterRoles().DeleteCollection(ctx, none, labelled), rbac.ClusterRoleBindings().DeleteCollection(ctx, none, labelled),
			rbac.Roles(berth).DeleteCollection(ctx, none, labelled), rbac.RoleBindings(berth).DeleteCollection(ctx, none, labelled),
		))
	})
	s.pinnable(t, true, "")
	u := s.user(t, viewer)
	before := u.left(t)
	s.start(t, "neighbour")
	p := s.start(t, "held", pinned)
	s.settled(t)
	h := held{name: space + "/held/app", own: parseList(read(cpusets(), s.groupOf(t, id(p, "app")).dir, "cpuset.cpus"))}
	h.left = before - len(h.own)
	if len(h.own) == 0 {
		t.Fatal("the pinned pod has no CPUs")
	}
	t.Run("cluster page", func(t *testing.T) { u.seesPages(t, h) })
	t.Run("terminal", func(t *testing.T) { u.seesFrames(t, h) })
	t.Run("missing rights", s.lackRights)
}

// held is the pinned pod, as this machine has it.
type held struct {
	name string // Of its container.
	own  list   // The CPUs of its control group.
	left int    // The number of CPUs that a further pod can have: one core stays in the shared pool.
}

// user is a user with a kubeconfig, berth, and its plugin of kubectl.
type user struct {
	*stage

	kubeconfig string
	env        []string
}

func (s *stage) user(t *testing.T, name string) user {
	t.Helper()
	_, kubeconfig, err := s.c.As(name)
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	must(t, os.WriteFile(file, kubeconfig, 0o600))
	must(t, os.Symlink(s.programs.Berth, filepath.Join(dir, "kubectl-berth")))
	return user{s, file, append(os.Environ(), "KUBECONFIG="+file, "PATH="+dir+":"+os.Getenv("PATH"))}
}

// command is kubectl berth, or berth if the first word says so.
func (u user) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, u.programs.Kubectl, append([]string{"berth"}, args...)...)
	if args[0] == "berth" {
		cmd = exec.CommandContext(ctx, u.programs.Berth, slices.Concat(args[1:], []string{"--kubeconfig", u.kubeconfig})...)
	}
	cmd.Env = u.env
	return cmd
}

// sees waits until the output of a command has what the user must see.
func (u user) sees(t *testing.T, lacks func(out string) string, args ...string) {
	t.Helper()
	u.eventually(t, strings.Join(args, " "), func() string {
		out, err := u.command(t.Context(), args...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, out)
		}
		return lacks(string(out)) // Without the output, which has the time: patience waits for as long as a text changes.
	})
}

// row returns the words of the line that begins with a word, perhaps after a sign.
func row(out, first string) []string {
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); slices.Contains(words[:min(2, len(words))], first) {
			return words[slices.Index(words, first):]
		}
	}
	return nil
}

// left returns how many CPUs a pod can have, as kubectl berth status shows it, once no pod is pinned.
func (u user) left(t *testing.T) (left int) {
	t.Helper()
	u.sees(t, func(out string) string {
		words := row(out, local.NodeName)
		if len(words) < 4 || words[3] != "-" {
			return "no row without exclusive CPUs"
		}
		var err error
		left, err = strconv.Atoi(words[2])
		return text(err)
	}, "status")
	return left
}

// seesFrames looks at what the commands print without a terminal.
func (u user) seesFrames(t *testing.T, h held) {
	left := strconv.Itoa(h.left)
	ofCluster := func(out string) string {
		words := row(out, local.NodeName)
		if last := len(words) - 1; last < 4 || words[1] != left || words[last] != "yes" || words[last-2] != "1" {
			return fmt.Sprintf("%q: no row with %s free CPUs and 1 pinned pod", words, left)
		}
		return plain(out)
	}
	ofNode := func(out string) string {
		words := row(out, h.name)
		if len(words) < 3 || words[1] != "pinned" || !parseList(words[2]).equal(h.own) {
			return fmt.Sprintf("%q: no row with the CPUs %s", words, h.own)
		}
		return plain(out)
	}
	u.sees(t, ofCluster, "berth", "top")
	u.sees(t, ofCluster, "top")
	u.sees(t, ofNode, "berth", "top", local.NodeName)
	u.sees(t, ofNode, "top", local.NodeName)
	u.sees(t, func(out string) string {
		if words := row(out, local.NodeName); len(words) < 4 || words[2] != left || !parseList(words[3]).equal(h.own) {
			return fmt.Sprintf("%q: no row with %s free CPUs and the exclusive CPUs %s", words, left, h.own)
		}
		return plain(out)
	}, "status")
	u.sees(t, func(out string) string {
		if !strings.Contains(out, "NUMA node 0") {
			return "no NUMA node"
		}
		return plain(out)
	}, "topology", local.NodeName)
	u.sees(t, func(out string) string {
		taken, all := list{}, list{}
		for _, title := range regexp.MustCompile(`<title>CPU (\d+), core \d+(: taken)?`).FindAllStringSubmatch(out, -1) {
			all = all.with(parseList(title[1]))
			if title[2] != "" {
				taken = taken.with(parseList(title[1]))
			}
		}
		if !taken.equal(h.own) || !all.equal(online()) {
			return fmt.Sprintf("of the CPUs %s, %s are taken, want %s of %s", all, taken, h.own, online())
		}
		return ""
	}, "topology", local.NodeName, "-o", "svg")
}

// plain reports a character that only a terminal understands.
func plain(out string) string {
	if strings.ContainsAny(out, "\x1b\r") {
		return "a control character"
	}
	return ""
}

// seesPages opens the page of the cluster, and of the node from there and alone.
func (u user) seesPages(t *testing.T, h held) {
	link, end := u.opens(t, "web")
	u.isServed(t, link, `src="cluster.js"`)
	u.isServed(t, link+"nodes/"+local.NodeName+"/", `src="main.js"`)
	u.eventually(t, "the data of the cluster", func() string {
		var v struct {
			Nodes []struct {
				Name             string
				FreeCPUs, Pinned int
				Obstacle         string
			}
			Problems []string
		}
		text, err := fetched(t.Context(), link+"api/v1/view")
		if err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		for _, n := range v.Nodes {
			if n.Name == local.NodeName && n.FreeCPUs == h.left && n.Pinned == 1 && n.Obstacle == "" && len(v.Problems) == 0 {
				return ""
			}
		}
		return fmt.Sprintf("%+v, want %d free CPUs and 1 pinned pod: %v", v, h.left, err)
	})
	u.showsNode(t, link+"nodes/"+local.NodeName+"/api/v1/view", h)
	if text, err := fetched(t.Context(), link+"nodes/none/"); err == nil || !strings.Contains(text, `no node "none"`) {
		t.Errorf("the page of a node that is none: %v %s", err, text)
	}
	end()
	link, end = u.opens(t, "web", local.NodeName)
	u.isServed(t, link, `src="main.js"`)
	u.showsNode(t, link+"api/v1/view", h)
	end()
}

// opens runs kubectl berth web until end is called, and returns the link that it prints.
func (u user) opens(t *testing.T, args ...string) (link string, end func()) {
	t.Helper()
	var cmd *exec.Cmd
	var said strings.Builder
	u.eventually(t, "the link of "+strings.Join(args, " "), func() string {
		cmd = u.command(context.WithoutCancel(t.Context()), args...)
		said.Reset()
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return fmt.Sprintf("%v, %v: %s", err, cmd.Wait(), said.String())
		}
		link = strings.TrimSpace(line)
		return ""
	})
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ends with %v: %s", args, err, said.String())
		}
	}
	t.Cleanup(end)
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/$`).MatchString(link) {
		t.Fatalf("%s prints %q, and no link to the loopback address", args, link)
	}
	return link, end
}

// isServed checks that a page has a text.
func (u user) isServed(t *testing.T, link, want string) {
	t.Helper()
	if text, err := fetched(t.Context(), link); err != nil || !strings.Contains(text, want) {
		t.Errorf("%s has no %s: %v\n%s", link, want, err, text)
	}
}

// showsNode waits until the agent's data has the pinned container with its CPUs.
func (u user) showsNode(t *testing.T, link string, h held) {
	t.Helper()
	u.eventually(t, "the data of the node", func() string {
		var v struct {
			CPUs []struct {
				ID     int
				Holder string
			}
			Workloads []struct {
				Name string
				CPUs struct {
					CPUs      string
					Exclusive bool
				}
			}
		}
		text, err := fetched(t.Context(), link)
		if err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		holds := list{}
		for _, c := range v.CPUs {
			if c.Holder == h.name {
				holds[c.ID] = true
			}
		}
		for _, w := range v.Workloads {
			if w.Name == h.name && w.CPUs.Exclusive && parseList(w.CPUs.CPUs).equal(h.own) && holds.equal(h.own) {
				return ""
			}
		}
		return fmt.Sprintf("%s holds %s, want %s: %v, workloads %+v", h.name, holds, h.own, err, v.Workloads)
	})
}

// fetched returns what a server answers, with an error unless the status is 200.
func fetched(ctx context.Context, link string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", link, answer.Status)
	}
	return string(text), err
}

// lackRights checks that users who lack a right read which, and where their request failed.
func (s *stage) lackRights(t *testing.T) {
	agent := s.agent(t).Name
	node := local.NodeName
	for _, c := range []struct {
		user  string
		args  []string
		wants []string
	}{
		{stranger, []string{"web"}, []string{"no page of the cluster: list nodes of ", `User "` + stranger + `" cannot list resource "nodes"`}},
		{stranger, []string{"top"}, []string{`User "` + stranger + `" cannot list resource "`}},
		{stranger, []string{"status"}, []string{`User "` + stranger + `" cannot list resource "`}},
		{stranger, []string{"topology", node}, []string{`User "` + stranger + `" cannot list resource "`}},
		{stranger, []string{"web", node}, []string{"no page of node " + node, `User "` + stranger + `" cannot create resource "serviceaccounts/token"`}},
		{noToken, []string{"web", node}, []string{"token of the account berth-system/berth-viewer", `User "` + noToken + `" cannot create resource "serviceaccounts/token"`}},
		{noToken, []string{"top", node}, []string{`cannot create resource "serviceaccounts/token"`}},
		{noPort, []string{"web", node}, []string{"port-forward to port ", " of pod " + berth + "/" + agent, `User "` + noPort + `" cannot get resource "pods/portforward"`}},
		{noPort, []string{"top", node}, []string{" of pod " + berth + "/" + agent, `cannot get resource "pods/portforward"`}},
		{viewer, []string{"top", "none"}, []string{"no agent of Berth runs there: node none has no pod with the label "}},
	} {
		u := s.user(t, c.user)
		s.eventually(t, fmt.Sprintf("%s %s", c.user, c.args), func() string {
			out, err := u.command(t.Context(), c.args...).CombinedOutput()
			if err == nil || !hasAll(string(out), c.wants) {
				return fmt.Sprintf("%v: %s, want %q", err, out, c.wants)
			}
			return ""
		})
	}
	link, end := s.user(t, noPort).opens(t, "web")
	defer end()
	s.eventually(t, "the page of the node of "+noPort, func() string {
		text, err := fetched(t.Context(), link+"nodes/"+node+"/api/v1/view")
		if err == nil || !hasAll(text, []string{" of pod " + berth + "/" + agent, `cannot get resource "pods/portforward"`}) {
			return fmt.Sprintf("%v: %s", err, text)
		}
		return ""
	})
}

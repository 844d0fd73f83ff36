package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/berth-project/berth/internal/agent/checkpoint"
)

// hostile is a text of a tenant: it would set the title of the terminal, clear the screen, reorder its line and forge
// another line.
const hostile = "owned\x1b]0;t\a\x1b[2J\u202e\u2066\u009b1m\u009d\x7f\x00\r\x1b[1mbold\x1b[0m\nforged: line\n\x9b"

// hostileYAML is most of it in a string of YAML.
const hostileYAML = `"owned\e[2J\u202e\u2066\x9b1m\x7f\nforged: line\n"`

// TestHostileTexts: whatever the texts hold that nodes, tenants and other programs wrote, a command prints no character
// that a terminal obeys, and no line that such a text begins.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	dir, kubeconfig := t.TempDir(), hostileServer(t)
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	topology := fmt.Sprintf(`{"online":"0-3","l3":[{"id":0,"cpus":"0-3"}],"cores":[{"id":0,"cpus":"0-1"},{"id":1,"cpus":"2-3"}],"kind":%q}`, "owned\x1b[2J")
	cluster := file("cluster.yaml", strings.ReplaceAll(hostileCluster, "HOSTILE", hostileYAML))
	profile := file("profile.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: "+hostileYAML+"}\n")
	for name, args := range map[string][]string{
		"place":        {"place", "--cpus", "2", "--topology", file("topology.json", topology)},
		"simulate":     {"simulate", "-f", cluster},
		"repack":       {"repack", "node-a", "--dry-run", "-f", cluster},
		"tune plan":    {"tune", "plan", profile},
		"explain pod":  {"explain", "pod/app", "--kubeconfig", kubeconfig},
		"repack live":  {"repack", "node-a", "--kubeconfig", kubeconfig},
		"an argument":  {"explain", "pod/" + hostile},
		"a subcommand": {hostile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkClean(t, args)
		})
	}
}

// TestHostileHost is TestHostileTexts for the commands that read a host.
func TestHostileHost(t *testing.T) {
	t.Parallel()
	h := twoNodes(t)
	h.reportHostile()
	h.change()
	h.write("sys/fs/cgroup/app/cpu.max", "max 100000"+strings.ReplaceAll(hostile, "\n", "")+"\n")
	h.write("sys/devices/system/cpu/isolated", "0-"+hostile)
	h.write("sys/kernel/mm/transparent_hugepage/enabled", "[owned\x1b[2J] never\n")
	h.write("etc/berth/profiles/odd.yaml", "# owned\u202e\u2066 by its comment.\napiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: odd}\n")
	for name, args := range map[string][]string{
		"status":      {"status"},
		"explain":     {"explain", "left"},
		"explain odd": {"explain", "off" + hostile},
		"rollback":    {"rollback", "--dry-run"},
		"topology":    {"topology"},
		"memory":      {"memory", "show"},
		"tune list":   {"tune", "list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args = append(args, "--root", h.dir)
			if name != "topology" {
				args = append(args, "--config", filepath.Join(h.dir, "agent.yaml"))
			}
			checkClean(t, args)
		})
	}
}

// TestEncodedTexts: what programs read keeps each character.
func TestEncodedTexts(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.reportHostile()
	h.live()
	var s struct{ Problems []string }
	if err := json.Unmarshal([]byte(h.run("status", "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	if want := strings.ToValidUTF8(hostile, "\ufffd"); len(s.Problems) == 0 || s.Problems[len(s.Problems)-1] != want {
		t.Errorf("problems are %q, want %q", s.Problems, want)
	}
}

// TestStyles: on a terminal with styles, only those of Berth pass.
func TestStyles(t *testing.T) {
	t.Parallel()
	const text = bold + "title" + reset + "\x1b[2J\x1b]0;t\a\x1b\x1b[31m\n"
	for styled, want := range map[bool]string{
		false: "?[1mtitle?[0m?[2J?]0;t???[31m\n",
		true:  bold + "title" + reset + "?[2J?]0;t???[31m\n",
	} {
		var b strings.Builder
		if _, err := (&output{to: &b, styled: styled}).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("styled %t: %q, want %q", styled, b.String(), want)
		}
	}
}

// checkClean runs a command, whose output must have the hostile text in a harmless form.
func checkClean(t *testing.T, args []string) {
	t.Helper()
	var out, problems bytes.Buffer
	Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &problems}, "test")
	said := out.String() + problems.String()
	if !strings.Contains(said, "owned") {
		t.Errorf("%q: the text is not in the output:\n%q", args, said)
	}
	for line := range strings.Lines(said) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
			t.Errorf("%q: a terminal obeys %q", args, line)
		}
		if strings.HasPrefix(line, "forged") {
			t.Errorf("%q: a text begins the line %q", args, line)
		}
	}
}

// reportHostile puts hostile texts into the recorded checkpoint.
func (h host) reportHostile() {
	h.t.Helper()
	cp, err := checkpoint.Load(filepath.Join(h.dir, "state"))
	if err != nil {
		h.t.Fatal(err)
	}
	cp.Version = hostile
	cp.Problems = append(cp.Problems, hostile)
	for i := range cp.Workloads {
		w := &cp.Workloads[i]
		w.Warnings = append(w.Warnings, hostile)
		w.Reason, w.Group, w.PolicySource = w.Reason+hostile, w.Group+hostile, hostile
		if w.Name == "off" {
			w.Name += hostile
		}
	}
	data, err := json.Marshal(cp)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("state/checkpoint.json", string(data))
}

// hostileServer returns the kubeconfig of an API server that refuses every request with a hostile message.
func hostileServer(t *testing.T) string {
	t.Helper()
	message, err := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": http.StatusForbidden, "message": hostile,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(message)
	}))
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n", server.URL)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// hostileCluster has a node with a placed pod and a pending one.
const hostileCluster = `apiVersion: berth.dev/v1alpha1
kind: NodeTopology
metadata: {name: node-a}
spec:
  online: 0-7
  numaNodes: [{id: 0, cpus: 0-7, memoryBytes: 8589934592, distances: [10]}]
  l3: [{id: 0, cpus: 0-3}, {id: 1, cpus: 4-7}]
  cores: [0-1, 2-3, 4-5, 6-7]
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "50"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: HOSTILE
  annotations: {cpuset-scheduler: "true", scheduling.koordinator.sh/numa-topology-spec: HOSTILE}
spec:
  schedulerName: berth-scheduler
  containers: [{name: HOSTILE, resources: {limits: {cpu: 2}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: HOSTILE, namespace: HOSTILE, annotations: {cpuset-scheduler: "true"}}
spec:
  schedulerName: berth-scheduler
  schedulingGates: [{name: HOSTILE}]
  containers: [{name: main, resources: {limits: {cpu: 16}}}]
`

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
)

// TestBenchFlags checks that invalid measurements are refused, and what --quick sets.
func TestBenchFlags(t *testing.T) {
	for _, args := range []string{"--reps=0", "--duration=-1s", "--limit=0", "--rate=0", "--no-such-flag", "word", "--peer-label=a=b", "--peer-command=x --peer-annotation=word", "--reps-by-noise --reps=3"} {
		if _, err := parseBench(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	b, err := parseBench([]string{"--quick", "--out", "x"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o := b.options; o.Repetitions != 3 || o.Duration != 6*time.Second || o.Out != "x" {
		t.Errorf("--quick: %+v", o)
	}
}

// TestBenchRepetitionsByNoise checks that the noise replaces the number of repetitions.
func TestBenchRepetitionsByNoise(t *testing.T) {
	for args, want := range map[string]bool{"--reps-by-noise": true, "--reps-by-noise --quick": true, "--reps=3": false} {
		b, err := parseBench(strings.Fields(args), io.Discard)
		if err != nil || b.options.ByNoise != want {
			t.Errorf("%s: %v, %v", args, b, err)
		}
	}
}

// TestBusyNote checks that the notes report a machine without spare CPU only if a quota was below its ceiling.
func TestBusyNote(t *testing.T) {
	b, err := parseBench(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b.pods = []podOutcome{{Arm: bench.QuotaOnly, LowestQuota: 0.5}, {Arm: bench.Berth, LowestQuota: 1.5, NodeUse: 0.4}}
	if said := strings.Join(b.notes(), "\n"); strings.Contains(said, "too busy") {
		t.Error(said)
	}
	b.pods = append(b.pods, podOutcome{Arm: bench.Berth, LowestQuota: 0.8, NodeUse: 0.8})
	if said := strings.Join(b.notes(), "\n"); !strings.Contains(said, "too busy for bursting in 1 of 2 arms") || !strings.Contains(said, "60 %") {
		t.Error(said)
	}
}

// TestPeerFlags checks that the pod of a peer has the labels and annotations that the peer reads, and none of Berth's.
func TestPeerFlags(t *testing.T) {
	b, err := parseBench([]string{
		"--peer-command", "/opt/agent --v 2", "--peer-settle", "5s", "--peer-label", "qos=LS", "--peer-annotation", `burst={"policy": "auto"}`,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if p := b.options.Peer; len(p.Command) != 3 || p.Settle != 5*time.Second {
		t.Errorf("%+v", p)
	}
	pod := metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCPUBurst: "Berth's"}}
	b.peer.dress(&pod)
	if len(pod.Labels) != 1 || pod.Labels["qos"] != "LS" || len(pod.Annotations) != 1 || pod.Annotations["burst"] != `{"policy": "auto"}` {
		t.Errorf("%+v", pod)
	}
}

// TestWritesOf checks that writesOf counts only the writes to the server, in the agent's metrics.
func TestWritesOf(t *testing.T) {
	const text = `# TYPE berth_writes_total counter
berth_writes_total{container="server",namespace="berth-tour",pod="server",workload=""} 3
berth_writes_total{container="server",namespace="other",pod="server",workload=""} 5
berth_writes_total{container="server",namespace="berth-tour",pod="server-2",workload=""} 7
berth_write_errors_total{container="server",namespace="berth-tour",pod="server",workload=""} 11
`
	if n := writesOf([]byte(text)); n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
}

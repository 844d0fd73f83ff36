package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/cluster/vmnode"
)

// offline takes a CPU of a pod with exclusive CPUs offline. The pod must get another CPU, and no other pod may change.
// The pods "held" and "neighbour" remain.
func (s *second) offline(t *testing.T) {
	s.start(t, "held", 4)
	s.start(t, "neighbour", 0)
	s.settled(t)
	lost := s.moves(t, "held", func() {
		s.start(t, "later", 4)
		s.settled(t)
	})
	s.remove(t, "later")
	s.eventually(t, "the neighbour may use the CPU again", func() string {
		for _, r := range s.residents(t) {
			if r.pod == "neighbour" && !r.mask.Contains(lost) {
				return "it runs on " + r.mask.String()
			}
		}
		return ""
	})
	s.settled(t)
}

// cut cuts the power of the node with the pods that offline leaves: one with exclusive CPUs, one without. After the
// boot the kubelet must start them on the same CPUs, and the agent must not carry out the journal of the earlier boot.
func (s *second) cut(t *testing.T) {
	s.settled(t)
	before := s.given(t, "held")
	const journal = "find /var/lib/berth /run/berth -name 'journal*' -size +0 2>/dev/null | wc -l"
	if s.sh(t, journal) == "0" {
		t.Error("no journal while CPUs are given out")
	}
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot := s.sh(t, "sync; "+bootID)
	if err := s.node.Cut(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.node.Run(t.Context(), "true"); s.node.On() || !errors.Is(err, vmnode.ErrGuest) {
		t.Errorf("a command without power: %v", err)
	}
	if err := s.node.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.node.WaitReady(t.Context(), s.client); err != nil {
		t.Fatal(err)
	}
	if s.sh(t, bootID) == boot {
		t.Errorf("the same boot %s", boot)
	}
	s.eventually(t, "both run again", func() string {
		running := map[string]bool{}
		for _, r := range s.residents(t) {
			running[r.pod] = true
		}
		if !running["held"] || !running["neighbour"] {
			return fmt.Sprint(running)
		}
		return ""
	})
	s.settled(t)
	if now := s.given(t, "held"); now != before {
		t.Errorf("held had %s and has %s", before, now)
	}
	if text, err := s.quiet(t.Context(), "logs", "-n", "berth-system", "-l", "app.kubernetes.io/name=berth-agent",
		"--field-selector", "spec.nodeName="+vmName, "--tail=-1"); err == nil && strings.Contains(string(text), "level=ERROR") {
		t.Errorf("the agent after the boot:\n%s", text)
	}
	s.remove(t, "held")
	s.eventually(t, "the neighbour has all CPUs", func() string {
		for _, r := range s.residents(t) {
			if r.pod == "neighbour" && r.mask != s.online(t) {
				return "it runs on " + r.mask.String()
			}
		}
		return ""
	})
}

// fromEnv returns a number from the environment, or a default.
func fromEnv(t *testing.T, key string, value uint64) uint64 {
	t.Helper()
	text := os.Getenv(key)
	if text == "" {
		return value
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// churn creates and deletes pods at random, BERTH_NODE_CHURN times (default 12). Every few steps it checks that
// annotation, file and masks agree.
func (s *second) churn(t *testing.T) {
	steps := fromEnv(t, "BERTH_NODE_CHURN", 12)
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	var alive []string
	made, removed := 0, 0
	for made+removed < int(steps) {
		for range 4 {
			if len(alive) > 0 && (len(alive) == 6 || random.IntN(3) == 0) {
				at := random.IntN(len(alive))
				s.drop(t, alive[at])
				alive = append(alive[:at], alive[at+1:]...)
				removed++
				continue
			}
			name := fmt.Sprintf("churn-%d", made)
			s.create(t, name, []int{0, 0, 1, 2, 3, 4}[random.IntN(6)])
			alive = append(alive, name)
			made++
		}
		s.eventually(t, "all pods run that are left", func() string {
			pods, err := s.mine(t.Context())
			if err != nil {
				return err.Error()
			}
			for i := range pods {
				if p := &pods[i]; p.DeletionTimestamp != nil || p.Spec.NodeName != "" && !running(p) {
					return p.Name + " does not"
				}
			}
			return ""
		})
		s.settled(t)
	}
	t.Logf("%d pods came, %d went", made, removed)
}

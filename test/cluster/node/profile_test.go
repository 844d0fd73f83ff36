package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

// hostProfile applies a host profile as the administrator of the node does. The agent in its pod reports what another
// program changes, and leaves it. It takes no limit of its pod's namespaces for the host's.
func (s *stage) hostProfile(t *testing.T) {
	const shared, network, ipc = "/proc/sys/vm/stat_interval", "/proc/sys/net/core/somaxconn", "/proc/sys/kernel/shmmni"
	dir := t.TempDir()
	config, file := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "node.yaml")
	must(t, os.WriteFile(config, []byte("stateDir: "+local.NodePath("/var/lib/berth")+"\nworkloadDir: "+dir+"\n"), 0o600))
	profile := "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: node}\nspec:\n  settings:\n"
	original := map[string]int{}
	for _, name := range []string{shared, network, ipc} {
		now, err := os.ReadFile(name)
		must(t, err)
		original[name], err = strconv.Atoi(strings.TrimSpace(string(now)))
		must(t, err)
		profile += fmt.Sprintf("    sysctl.%s: %d\n", strings.ReplaceAll(strings.TrimPrefix(name, "/proc/sys/"), "/", "."), original[name]+1)
	}
	must(t, os.WriteFile(file, []byte(profile), 0o600))
	berth := func(args ...string) (string, error) {
		out, err := exec.Command(s.programs.Berth, append(args, "--config", config)...).CombinedOutput() //nolint:noctx // also after the test
		return string(out), err
	}
	tune := func(args ...string) {
		t.Helper()
		if out, err := berth(append([]string{"tune"}, args...)...); err != nil {
			t.Fatalf("berth tune %s: %v\n%s", args, err, out)
		}
	}
	set := func(name string, value int) {
		t.Helper()
		must(t, os.WriteFile(name, []byte(strconv.Itoa(value)), 0))
	}
	drifted := func(want string) {
		t.Helper()
		s.eventually(t, "settings that the host does not have: "+want, func() string {
			value, is := metrics(t)[`berth_host_profile_drift{profile="node"}`]
			if now := strconv.FormatFloat(value, 'g', -1, 64); is && now != want || is != (want != "none") {
				return fmt.Sprint(is, now)
			}
			return ""
		})
	}
	t.Cleanup(func() {
		if out, err := berth("tune", "rollback", "--leave-drifted"); err != nil {
			t.Errorf("rollback: %v\n%s", err, out)
		}
		for name, value := range original {
			set(name, value)
		}
	})
	tune("apply", file)
	tune("commit")
	drifted("0")
	set(shared, original[shared]+2)
	set(network, original[network]) // the pod has the network of the host
	drifted("2")
	s.event(t, metav1.NamespaceDefault, local.NodeName, "HostDrift", "host profile node", "sysctl.vm.stat_interval is drift")
	if out, err := berth("status"); err != nil || !hasAll(out, []string{"not seen from the pod: sysctl.kernel.shmmni (the pod has an IPC namespace of its own)"}) {
		t.Errorf("berth status: %v\n%s", err, out)
	}
	if now, err := os.ReadFile(shared); err != nil || strings.TrimSpace(string(now)) != strconv.Itoa(original[shared]+2) {
		t.Errorf("%s is %s, %v: not as the other program left it", shared, now, err)
	}
	for name, value := range original {
		set(name, value+1)
	}
	tune("rollback")
	drifted("none")
}

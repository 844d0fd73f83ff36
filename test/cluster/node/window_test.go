package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster/local"
)

const (
	// corrected is how long a container may run on CPUs other than its own.
	corrected = time.Second
	// runtimeDir is the directory of the runtime's socket.
	runtimeDir = "/run/containerd"
)

// window records one start: the CPUs of the first instruction, the CPUs after the change, and the time of the change.
type window struct {
	first, then list
	after       time.Duration
}

// watching makes the containers report the time at which their CPUs change.
func watching(p *v1.Pod) {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Args = []string{"watch"}
	}
}

// withoutNRI runs an agent that knows the runtime only through CRI, and sets CPUs when it sees a container. The
// container itself measures how long it runs on other CPUs until then.
func (s *stage) withoutNRI(t *testing.T) {
	starts := number(t, "BERTH_NODE_WINDOWS", 25)
	defer s.byCRI(t)()
	s.start(t, "neighbour", spinning, limited("500m"))
	var all []time.Duration
	right, late := 0, 0
	for i := 0; len(all) < starts; i++ {
		name, kind := fmt.Sprintf("window-%d", i), option(pinned)
		if i%2 == 1 {
			kind = pool(min(12, starts-len(all)))
		}
		p := s.start(t, name, kind, watching)
		s.witness.unaskedPod(p)
		for _, c := range p.Spec.Containers {
			w, own := s.window(t, p, c.Name), s.placement(t, name, c.Name).cpus
			switch {
			case len(own) == 1 && w.first.equal(own):
				right++
			case len(own) != 1 || !w.then.equal(own):
				t.Errorf("%s/%s began on CPUs %s and has %s after %v, want %s", name, c.Name, w.first, w.then, w.after, own)
			case w.after > corrected:
				late++
				t.Errorf("%s/%s was on CPUs %s for %v, and has %s for itself", name, c.Name, w.first, w.after, own)
			}
			all = append(all, w.after)
		}
		s.settled(t)
		s.remove(t, name)
	}
	s.figure(t, "without NRI, starts with the right CPUs from the first instruction", fmt.Sprintf("%d of %d", right, len(all)))
	s.figure(t, fmt.Sprintf("without NRI, starts on others' CPUs for more than %v", corrected), late)
	for _, q := range []float64{0.5, 0.99, 1} {
		s.figure(t, fmt.Sprintf("without NRI, time on others' CPUs p%g, ms", q*100), float64(quantile(all, q).Microseconds())/1000)
	}
}

// window waits for a container's report about its own start.
func (s *stage) window(t *testing.T, p *v1.Pod, container string) window {
	t.Helper()
	var w window
	file := local.NodePath(filepath.Join("/var/log/pods", p.Namespace+"_"+p.Name+"_"+string(p.UID), container, "0.log"))
	s.eventually(t, "what "+p.Name+"/"+container+" says", func() string {
		content, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		text := string(content)
		before, said, found := strings.Cut(text, " after ")
		var us int64
		if _, err := fmt.Sscanf(said, "%d us", &us); !found || err != nil || !strings.HasSuffix(text, "\n") {
			return fmt.Sprintf("so far %q", text)
		}
		_, first, _ := strings.Cut(before, "Cpus_allowed_list:\t")
		first, _, _ = strings.Cut(first, "\n")
		w = window{first: parseList(first), after: time.Duration(us) * time.Microsecond}
		_, cpus, found := strings.Cut(said, "Cpus_allowed_list:\t")
		if !found {
			w.then, w.after = w.first, 0
			return ""
		}
		w.then = parseList(cpus)
		return ""
	})
	return w
}

// byCRI gives the agent a configuration without NRI, and the runtime's socket. The returned function undoes that.
func (s *stage) byCRI(t *testing.T) (undo func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	config, err := s.client.CoreV1().ConfigMaps(berth).Get(ctx, agents, metav1.GetOptions{})
	must(t, err)
	shipped := config.Data["agent.yaml"]
	file := map[string]any{}
	must(t, yaml.Unmarshal([]byte(shipped), &file))
	cluster, ok := file["cluster"].(map[string]any)
	if !ok {
		t.Fatalf("the agent's file has no cluster: %s", shipped)
	}
	cluster["nriSocket"], cluster["runtimeEndpoint"] = "none", "unix://"+runtimeDir+"/containerd.sock"
	other, err := yaml.Marshal(file)
	must(t, err)
	var template v1.PodTemplateSpec
	s.reconfigure(t, string(other), func(d *appsv1.DaemonSet) {
		template = *d.Spec.Template.DeepCopy()
		spec := &d.Spec.Template.Spec
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "cri", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: runtimeDir}}})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "cri", MountPath: runtimeDir})
	})
	s.eventually(t, "the agent works without NRI", func() string {
		if all := metrics(t); all == nil || all["berth_nri_connected"] == 1 {
			return "it does not"
		}
		return ""
	})
	return func() {
		s.witness.without()
		s.reconfigure(t, shipped, func(d *appsv1.DaemonSet) { d.Spec.Template = template })
		s.agentReady(t)
	}
}

// reconfigure gives the agent another file and another pod template, and waits for the pod that has them.
func (s *stage) reconfigure(t *testing.T, file string, change func(*appsv1.DaemonSet)) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s.witness.without()
	pid := s.agentPID(t)
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		config, err := s.client.CoreV1().ConfigMaps(berth).Get(ctx, agents, metav1.GetOptions{})
		if err != nil {
			return err
		}
		config.Data["agent.yaml"] = file
		_, err = s.client.CoreV1().ConfigMaps(berth).Update(ctx, config, metav1.UpdateOptions{})
		return err
	}))
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := s.client.AppsV1().DaemonSets(berth).Get(ctx, agents, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		_, err = s.client.AppsV1().DaemonSets(berth).Update(ctx, d, metav1.UpdateOptions{})
		return err
	}))
	s.eventually(t, "the agent with another configuration", func() string {
		if now := s.agentPID(t); now == pid {
			return "the process is the same"
		}
		return ""
	})
}

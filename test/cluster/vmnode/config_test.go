package vmnode

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// kubeconfig returns a kubelet's kubeconfig for a server.
func kubeconfig(server string) []byte {
	return []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\n" +
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")
}

func options() Options {
	return Options{
		Name: "n", Dir: "/d", IP: "198.18.7.2", Kubeconfig: kubeconfig("https://127.0.0.1:6443"), CA: []byte("ca"),
		Programs: Programs{Kubelet: "/bin/kubelet"}, PodCIDR: "198.18.129.0/24",
		Registry: "http://127.0.0.1:5000", ServiceCIDR: "198.19.0.0/16",
	}
}

// TestServersAreSeenFromTheGuest checks that the host's loopback is translated, with the name in the certificate. Any
// other address must stay unchanged and get a route.
func TestServersAreSeenFromTheGuest(t *testing.T) {
	for _, test := range []struct{ server, want, name, route string }{
		{"https://127.0.0.1:6443", "https://10.0.2.2:6443", "127.0.0.1", "10.0.2.2"},
		{"https://localhost:6443", "https://10.0.2.2:6443", "localhost", "10.0.2.2"},
		{"https://198.18.0.1:6443", "https://198.18.0.1:6443", "", "198.18.0.1"},
	} {
		text, servers, err := translate(kubeconfig(test.server))
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.Load(text)
		if err != nil {
			t.Fatal(err)
		}
		c := config.Clusters["c"]
		if c.Server != test.want || c.TLSServerName != test.name || !cmp.Equal(servers, []string{test.route}) {
			t.Errorf("%s becomes %s as %q, route to %q", test.server, c.Server, c.TLSServerName, servers)
		}
	}
}

func TestSetupHasRoutesToWhatTheNodeNeeds(t *testing.T) {
	o := options()
	o.Kubeconfig = kubeconfig("https://198.18.0.1:6443")
	o.Registry = "http://198.18.0.1:5000"
	files, err := o.files("token")
	if err != nil {
		t.Fatal(err)
	}
	setup := string(files["setup"])
	for line, times := range map[string]int{
		"ip route replace 198.18.0.1 via 10.0.2.2\n":    1,
		"ip route replace 198.19.0.0/16 via 10.0.2.2\n": 1,
		"ip address replace 198.18.7.2/32 dev lo\n":     1,
		"default": 0,
	} {
		if got := strings.Count(setup, line); got != times {
			t.Errorf("%q is there %d times, not %d, in\n%s", line, got, times, setup)
		}
	}
	if !strings.Contains(string(files["etc/certs.d/_default/hosts.toml"]), `[host."http://198.18.0.1:5000"]`) {
		t.Errorf("the mirror is missing: %q", files["etc/certs.d/_default/hosts.toml"])
	}
}

func TestOptionsChangeTheKubelet(t *testing.T) {
	o := options()
	o.Kubelet = map[string]any{"cpuManagerPolicy": "static", "cgroupDriver": "cgroupfs"}
	text, err := o.kubeletConfig()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got["cpuManagerPolicy"] != "static" || got["cgroupDriver"] != "cgroupfs" || got["kind"] != "KubeletConfiguration" {
		t.Errorf("configuration %v", got)
	}
}

func TestOptionsThatMakeNoNode(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no name":            func(o *Options) { o.Name = "" },
		"no directory":       func(o *Options) { o.Dir = "" },
		"no address":         func(o *Options) { o.IP = "" },
		"a loopback address": func(o *Options) { o.IP = "127.0.0.2" },
		"IPv6":               func(o *Options) { o.IP = "fd00::1" },
		"no kubeconfig":      func(o *Options) { o.Kubeconfig = nil },
		"no CA":              func(o *Options) { o.CA = nil },
		"no pod addresses":   func(o *Options) { o.PodCIDR = "" },
	} {
		o := options()
		change(&o)
		if _, err := Start(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: Start() = %v, want %v", name, err, ErrOptions)
		}
	}
	if o, err := options().complete(); err != nil || o.Machine.CPUs() != 16 || o.Machine.Nodes != 2 {
		t.Errorf("complete() = %+v, %v", o.Machine, err)
	}
}

// TestMachineIDIsOne checks the format that systemd requires of an id: 32 hexadecimal digits.
func TestMachineIDIsOne(t *testing.T) {
	id := machineID("a")
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || id == machineID("b") {
		t.Errorf("machineID = %q", id)
	}
}

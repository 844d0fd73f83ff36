package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/intent/manifest"
)

// TestAgentMonitor checks that agent.tls creates a Service and a monitor: agents then listen beyond loopback, with a
// certificate that Prometheus verifies. Without agent.tls the chart creates no monitor, because Prometheus could not
// reach the agents.
func TestAgentMonitor(t *testing.T) {
	const monitor, service = "ServiceMonitor berth-system/berth-agent", "Service berth-system/berth-agent"
	for text, want := range map[string][]string{
		"{scheduler: {mode: off}, monitoring: {monitors: true}}":                                     nil,
		"{scheduler: {mode: off}, agent: {tls: true}}":                                               nil,
		"{scheduler: {mode: off}, agent: {tls: true, enabled: false}, monitoring: {monitors: true}}": nil,
		"{scheduler: {mode: off}, agent: {tls: true}, monitoring: {monitors: true}}":                 {service, monitor},
	} {
		if diff := cmp.Diff(want, only(render(t, newest, "kube-system", text), "Service", "ServiceMonitor")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	all := render(t, newest, "kube-system", "{agent: {tls: true, config: {reservedCPUs: \"0\"}}, monitoring: {monitors: true}}")
	set, of, s := all["DaemonSet berth-system/berth-agent"], all[service], all[monitor]
	selected(t, set, of, s)
	endpoint := object(s.at("spec", "endpoints", 0).(map[string]any))
	if endpoint["port"] != of.at("spec", "ports", 0, "name") || endpoint["scheme"] != "https" || endpoint["bearerTokenFile"] == nil || endpoint.at("tlsConfig", "insecureSkipVerify") != nil {
		t.Errorf("endpoint %v", endpoint)
	}
	text, _ := all["ConfigMap berth-system/berth-agent"].at("data", "agent.yaml").(string)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := manifest.LoadConfig(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if port := fmt.Sprintf(":%v", of.at("spec", "ports", 0, "targetPort")); cfg.Listen != port || cfg.ReservedCPUs != "0" {
		t.Errorf("the agents listen at %s, the Service asks %s; reserved are %q", cfg.Listen, port, cfg.ReservedCPUs)
	}
	pod := daemonset(t, newest, "agent: {tls: true}")
	mounted(t, pod)
	mounts, volumes := pod.at("containers", 0, "volumeMounts").([]any), pod.at("volumes").([]any)
	mount, volume := object(mounts[len(mounts)-1].(map[string]any)), object(volumes[len(volumes)-1].(map[string]any))
	if filepath.Dir(cfg.Web.TLS.CertFile) != mount["mountPath"] || filepath.Dir(cfg.Web.TLS.KeyFile) != mount["mountPath"] || mount["readOnly"] != true {
		t.Errorf("files %+v, mount %v", cfg.Web.TLS, mount)
	}
	if ca := endpoint.at("tlsConfig", "ca", "secret", "name"); ca == nil || ca != volume.at("secret", "secretName") {
		t.Errorf("Prometheus verifies by %v, the agents serve with %v", ca, volume)
	}
	probe := object(pod.at("containers", 0, "readinessProbe", "httpGet").(map[string]any))
	if probe["scheme"] != "HTTPS" || probe["path"] != "/readyz" || probe["host"] != "127.0.0.1" {
		t.Errorf("probe %v", probe)
	}
	if old := daemonset(t, newest, "").at("containers", 0, "readinessProbe", "httpGet", "scheme"); old != nil {
		t.Errorf("without the value the probe has the scheme %v", old)
	}
}

// selected reports a Service that does not select the pods of a workload, and a monitor that does not select that
// Service.
func selected(t *testing.T, workload, of, s object) {
	t.Helper()
	if diff := cmp.Diff(workload.at("spec", "template", "metadata", "labels", "app.kubernetes.io/name"), of.at("spec", "selector", "app.kubernetes.io/name")); diff != "" {
		t.Errorf("the Service selects other pods (-pods +selector):\n%s", diff)
	}
	if diff := cmp.Diff(s.at("spec", "selector", "matchLabels", "app.kubernetes.io/name"), of.at("metadata", "labels", "app.kubernetes.io/name")); diff != "" {
		t.Errorf("the monitor selects another Service (-selector +Service):\n%s", diff)
	}
}

// TestMonitors checks that the chart creates a monitor only if the value asks for it and the scheduler is enabled. The
// Prometheus operator must find the metrics port under the name that the pods use.
func TestMonitors(t *testing.T) {
	const monitor, service = "ServiceMonitor berth-system/berth-scheduler", "Service berth-system/berth-scheduler"
	for text, want := range map[string][]string{
		"":                             nil,
		"monitoring: {monitors: true}": {service, monitor},
		"{monitoring: {monitors: true}, scheduler: {mode: off}}": nil,
	} {
		if diff := cmp.Diff(want, only(render(t, newest, "kube-system", text), "Service", "ServiceMonitor")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	all := render(t, newest, "kube-system", "monitoring: {monitors: true}")
	pod, of, s := all["Deployment berth-system/berth-scheduler"], all[service], all[monitor]
	selected(t, pod, of, s)
	port := pod.at("spec", "template", "spec", "containers", 0, "ports", 0, "name")
	if got := of.at("spec", "ports", 0, "targetPort"); got != port || s.at("spec", "endpoints", 0, "port") != of.at("spec", "ports", 0, "name") {
		t.Errorf("the port of the pods is %v, that of the Service %v", port, of.at("spec", "ports", 0))
	}
	if s.at("spec", "endpoints", 0, "scheme") != "https" || s.at("spec", "endpoints", 0, "bearerTokenFile") == nil {
		t.Errorf("the endpoint is %v", s.at("spec", "endpoints", 0))
	}
}

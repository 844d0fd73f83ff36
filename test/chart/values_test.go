package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestWrongValues checks that Helm refuses a misspelled value or a value of a wrong type before it renders anything.
// The message must name the value.
func TestWrongValues(t *testing.T) {
	for text, want := range map[string]string{
		"agent: {enabled: 'yes'}":                                                                            "enabled",
		"agent: {image: berth:v1}":                                                                           "image",
		"agent: {image: {repository: ''}}":                                                                   "repository",
		"agent: {image: {pullPolicy: always}}":                                                               "pullPolicy",
		"agent: {image: {tag: 1.0}}":                                                                         "tag",
		"agent: {config: {reservedCPUs: 0}}":                                                                 "reservedCPUs",
		"agent: {config: {stateDir: /srv}}":                                                                  "stateDir",
		"agent: {config: {readPeerConfig: [koordlet]}}":                                                      "readPeerConfig",
		"agent: {config: {web: {hosts: node-1}}}":                                                            "hosts",
		"agent: {config: {history: {maxBytes: 64}}}":                                                         "maxBytes",
		"agent: {config: {burst: {enabled: 'yes'}}}":                                                         "/agent/config/burst/enabled",
		"agent: {config: {burst: {maxPercent: 99}}}":                                                         "/agent/config/burst/maxPercent",
		"agent: {config: {burst: {percent: 300}}}":                                                           "'percent' not allowed",
		"agent: {config: {burts: {}}}":                                                                       "'burts' not allowed",
		"agent: {config: {locality: {enable: true}}}":                                                        "'enable' not allowed",
		"agent: {config: {locality: {maxBandwidthMiBps: 256Mi}}}":                                            "maxBandwidthMiBps",
		"agent: {config: {isolation: {pullReservePercent: 51}}}":                                             "pullReservePercent",
		"agent: {config: {web: {tokens: true}}}":                                                             "'tokens' not allowed",
		"agent: {config: {web: {token: false}}}":                                                             "/agent/config/web/token",
		"agent: {config: {web: {tls: {certFile: /a}}}}":                                                      "'tls' not allowed",
		"agent: {config: {cluster: {enabled: false}}}":                                                       "/agent/config/cluster/enabled",
		"agent: {config: {cluster: {nriSocket: none}}}":                                                      "runtimeEndpoint",
		"agent: {config: {cluster: {pinning: {namespace: [db]}}}}":                                           "'namespace' not allowed",
		"agent: {config: {cluster: {pinning: {requestBelowLimit: never}}}}":                                  "requestBelowLimit",
		"agent: {config: {history: {retention: 24}}}":                                                        "/agent/config/history/retention",
		"agent: {config: {history: {retention: 24 hours}}}":                                                  "/agent/config/history/retention",
		"agent: {config: {history: {retention: 2d}}}":                                                        "/agent/config/history/retention",
		"agent: {config: {history: {maxBytes: 64MB}}}":                                                       "/agent/config/history/maxBytes",
		"agent: {config: {history: {listen: '127.0.0.1:9317'}}}":                                             "'listen' not allowed",
		"agent: {config: {cpu-burst-config: {policy: auto}}}":                                                "'policy' not allowed",
		"agent: {config: {cpu-burst-config: {clusterStrategy: {policy: always}}}}":                           "clusterStrategy/policy",
		"agent: {config: {cpu-burst-config: {nodeStrategies: []}}}":                                          "'nodeStrategies' not allowed",
		"agent: {config: {resource-threshold-config: {clusterStrategy: {enable: 1}}}}":                       "clusterStrategy/enable",
		"agent: {config: {resource-qos-config: {clusterStrategy: {lsClass: {cpuQOS: {groupIdentity: 3}}}}}}": "lsClass/cpuQOS/groupIdentity",
		"agent: {config: {resource-qos-config: {clusterStrategy: {lsClass: {cpuQos: {}}}}}}":                 "'cpuQos' not allowed",
		"agent: {kubelet: proxy}":                                                                            "kubelet",
		"agent: {nodeSelector: {pool: 1}}":                                                                   "nodeSelector",
		"scheduler: {mode: sidebyside}":                                                                      "mode",
		"scheduler: {replicas: '2'}":                                                                         "replicas",
		"scheduler: {args: {bindMode: Patch}}":                                                               "'bindMode' not allowed",
		"scheduler: {args: {numaAllocateStrategy: X}}":                                                       "/scheduler/args/numaAllocateStrategy",
		"scheduler: {args: {requestBelowLimit: never}}":                                                      "/scheduler/args/requestBelowLimit",
		"scheduler: {args: {staleAfterSeconds: 3m}}":                                                         "/scheduler/args/staleAfterSeconds",
		"scheduler: {args: {staleAfterSeconds: 86401}}":                                                      "/scheduler/args/staleAfterSeconds",
		"scheduler: {args: {leaseNamespace: Berth}}":                                                         "/scheduler/args/leaseNamespace",
		"scheduler: {args: {namespaces: [db, db]}}":                                                          "/scheduler/args/namespaces",
		"config: {cpu-burst-config: {clusterStrategy: {policy: always}}}":                                    "clusterStrategy/policy",
		"config: {cpu-burst-config: {nodeStrategies: [{policy: auto}]}}":                                     "nodeSelector",
		"config: {cpu-burst-config: {nodeStrategies: [{nodeSelector: {labels: {}}}]}}":                       "'labels' not allowed",
		"config: {resource-threshold-config: {clusterStrategy: {cpuSuppressPolicy: quota}}}":                 "clusterStrategy/cpuSuppressPolicy",
		"config: {resource-qos-config: {clusterStrategies: {}}}":                                             "'clusterStrategies' not allowed",
		"config: {cpu-burst-config: '{}'}":                                                                   "cpu-burst-config",
		"config: {cpu-burst: {}}":                                                                            "cpu-burst",
		"imagePullSecrets: [registry]":                                                                       "imagePullSecrets",
		"policies: maybe":                                                                                    "policies",
		"crds: {remove: true}":                                                                               "remove",
		"monitoring: {rules: 1}":                                                                             "rules",
		"monitoring: {monitors: all}":                                                                        "monitors",
		"agent: {tls: secret}":                                                                               "tls",
		"uninstall: {restore: maybe}":                                                                        "restore",
		"uninstall: {timeoutSeconds: 4m}":                                                                    "timeoutSeconds",
		"uninstall: {timeoutSeconds: 0}":                                                                     "timeoutSeconds",
		"scheduller: {mode: off}":                                                                            "scheduller",
	} {
		if _, err := try(t, newest, "kube-system", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// daemonset returns the pod template of the agents.
func daemonset(t *testing.T, kubernetes, text string) object {
	t.Helper()
	pod, _ := render(t, kubernetes, "kube-system", text)["DaemonSet berth-system/berth-agent"].at("spec", "template", "spec").(map[string]any)
	return pod
}

// TestHostPID checks that agent.hostPID adds the fields of the patch to the pod and preserves all other fields.
func TestHostPID(t *testing.T) {
	plain, pod := daemonset(t, newest, ""), daemonset(t, newest, "agent: {hostPID: true}")
	if pod["hostPID"] != true {
		t.Errorf("hostPID is %v", pod["hostPID"])
	}
	want := map[string]any{"drop": []any{"ALL"}, "add": []any{"DAC_READ_SEARCH", "SYS_NICE", "SYS_PTRACE"}}
	if diff := cmp.Diff(want, pod.at("containers", 0, "securityContext", "capabilities")); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	for _, kept := range [][]any{
		{"containers", 0, "image"},
		{"containers", 0, "volumeMounts"},
		{"volumes"},
		{"hostNetwork"},
		{"containers", 0, "securityContext", "readOnlyRootFilesystem"},
	} {
		if diff := cmp.Diff(plain.at(kept...), pod.at(kept...)); diff != "" || pod.at(kept...) == nil {
			t.Errorf("%v (-plain +hostPID):\n%s", kept, diff)
		}
	}
}

// mounted returns the names of the pod's volumes, which its container must mount.
func mounted(t *testing.T, pod object) []string {
	t.Helper()
	var volumes, mounts []string
	for list, all := range map[*[]string]any{&volumes: pod.at("volumes"), &mounts: pod.at("containers", 0, "volumeMounts")} {
		elements, _ := all.([]any)
		for _, element := range elements {
			*list = append(*list, fmt.Sprint(object(element.(map[string]any))["name"]))
		}
	}
	if diff := cmp.Diff(volumes, mounts); diff != "" {
		t.Errorf("the container mounts other volumes than the pod has:\n%s", diff)
	}
	return mounts
}

// TestKubelet checks that agents of a Kubernetes before 1.33 can read the kubelet's files.
func TestKubelet(t *testing.T) {
	shipped := []string{"config", "state", "cgroup", "nri", "kubelet-pki", "kubelet-devices"}
	files := append(slices.Clone(shipped), "kubelet-config", "kubelet-state")
	for _, c := range []struct {
		kubernetes, values string
		want               []string
	}{
		{"v1.33.0", "", shipped},
		{"v1.32.9", "", files},
		{"v1.32.9", "agent: {kubelet: api}", shipped},
		{newest, "agent: {kubelet: files}", files},
	} {
		if diff := cmp.Diff(c.want, mounted(t, daemonset(t, c.kubernetes, c.values))); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.kubernetes, c.values, diff)
		}
	}
	if got := mounted(t, daemonset(t, "v1.31.0", "agent: {kubelet: state}")); len(got) <= len(shipped) {
		t.Errorf("the states of the kubelet's managers: %v", got)
	}
}

// TestAgentFile checks that the values are merged into the shipped file, that the agent accepts the result, and that a
// change of the file restarts the agents.
func TestAgentFile(t *testing.T) {
	const text = `
agent:
  config:
    reservedCPUs: "0-1"
    burst: {enabled: false, maxPercent: 300}
    readPeerConfig: []
    history: {retention: 2h}
    cluster: {pinning: {namespaces: [db]}}
`
	all := render(t, newest, "kube-system", text)
	file, _ := all["ConfigMap berth-system/berth-agent"].at("data", "agent.yaml").(string)
	data, err := yaml.YAMLToJSON([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := v1alpha1.DecodeAgentConfig(data)
	if len(problems) > 0 {
		t.Fatalf("%v in\n%s", problems, file)
	}
	if cfg.ReservedCPUs != "0-1" || *cfg.Burst.Enabled || *cfg.Burst.MaxPercent != 300 || len(cfg.ReadPeerConfig) > 0 ||
		!slices.Equal(cfg.Cluster.Pinning.Namespaces, []string{"db"}) || cfg.Cluster.NRISocket != "/run/nri/nri.sock" {
		t.Errorf("the file is\n%s", file)
	}
	sum := func(text string) any {
		return render(t, newest, "kube-system", text)["DaemonSet berth-system/berth-agent"].at("spec", "template", "metadata", "annotations", "checksum/agent.yaml")
	}
	if sum("") != sum("config: {cpu-burst-config: {}}") || sum("") == sum(text) {
		t.Error("the agents roll at another change than that of their file")
	}
}

// TestConfiguration checks that the cluster's configuration reaches the agents' ConfigMap as JSON.
func TestConfiguration(t *testing.T) {
	all := render(t, newest, "kube-system", "config: {cpu-burst-config: {clusterStrategy: {policy: auto, cfsQuotaBurstPercent: 200}}}")
	want := map[string]any{"cpu-burst-config": `{"clusterStrategy":{"cfsQuotaBurstPercent":200,"policy":"auto"}}`}
	if diff := cmp.Diff(want, all["ConfigMap berth-system/berth-config"]["data"]); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

// TestSchedulerArguments checks that the plugin receives the arguments in every profile.
func TestSchedulerArguments(t *testing.T) {
	all := render(t, newest, "kube-system", "scheduler: {mode: replace, replicas: 3, args: {requestBelowLimit: deny, maxPinnedCPUsPerNamespace: 8}}")
	file, _ := all["ConfigMap berth-system/berth-scheduler"].at("data", "config.yaml").(string)
	configuration := object{}
	if err := yaml.UnmarshalStrict([]byte(file), &configuration); err != nil {
		t.Fatal(err)
	}
	for profile := range 2 {
		data, err := json.Marshal(configuration.at("profiles", profile, "pluginConfig", 0, "args"))
		if err != nil {
			t.Fatal(err)
		}
		args, problems := v1alpha1.DecodeSchedulerArgs(data)
		if len(problems) > 0 || args.RequestBelowLimit != v1alpha1.RequestBelowLimitDeny || *args.MaxPinnedCPUsPerNamespace != 8 {
			t.Errorf("profile %d: %+v, %v", profile, args, problems)
		}
	}
	if got := all["Deployment berth-system/berth-scheduler"].at("spec", "replicas"); got != 3.0 {
		t.Errorf("%v replicas", got)
	}
}

// TestImages checks that the registry, the tag and the pull secrets reach both programs.
func TestImages(t *testing.T) {
	all := render(t, newest, "kube-system", `
agent: {image: {repository: registry.example/berth, tag: v1}, nodeSelector: {pool: a}, resources: {requests: {cpu: 50m}}}
scheduler: {image: {repository: registry.example/sched}}
imagePullSecrets: [{name: registry}]
`)
	for key, image := range map[string]string{
		"DaemonSet berth-system/berth-agent":      "registry.example/berth:v1",
		"Deployment berth-system/berth-scheduler": "registry.example/sched:dev",
	} {
		pod := []any{"spec", "template", "spec"}
		if got := all[key].at(append(pod, "containers", 0, "image")...); got != image {
			t.Errorf("%s: image %v", key, got)
		}
		if got := all[key].at(append(pod, "imagePullSecrets", 0, "name")...); got != "registry" {
			t.Errorf("%s: secret %v", key, got)
		}
	}
	agent := all["DaemonSet berth-system/berth-agent"]
	want := map[string]any{"kubernetes.io/os": "linux", "pool": "a"}
	if diff := cmp.Diff(want, agent.at("spec", "template", "spec", "nodeSelector")); diff != "" {
		t.Errorf("nodeSelector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"requests": map[string]any{"cpu": "50m"}}, agent.at("spec", "template", "spec", "containers", 0, "resources")); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// TestTypes decodes the objects of every value like an API server that refuses unknown fields and wrong types.
func TestTypes(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	all := render(t, newest, "kube-system", `
agent: {hostPID: true, tls: true, kubelet: state, resources: {limits: {memory: 1Gi}}, nodeSelector: {pool: a}, config: {reservedCPUs: "0"}}
scheduler: {mode: replace, args: {requestBelowLimit: deny}, resources: {requests: {cpu: 1}}}
config: {cpu-burst-config: {clusterStrategy: {policy: auto}}}
imagePullSecrets: [{name: registry}]
monitoring: {dashboards: true}
raiseRequests: true
`)
	for key, o := range all {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decoder.Decode(text, nil, nil); err != nil && o["kind"] != "CustomResourceDefinition" {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMonitoring checks that the chart has the rules and dashboards of deploy/monitoring, and only on request.
func TestMonitoring(t *testing.T) {
	if got := only(render(t, newest, "kube-system", ""), "PrometheusRule"); got != nil {
		t.Errorf("without being asked for there is %v", got)
	}
	all := render(t, newest, "kube-system", "monitoring: {rules: true, dashboards: true}")
	text, err := os.ReadFile(filepath.Join(deploy, "monitoring/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values(t, string(text)), all["PrometheusRule berth-system/berth"]["spec"]); diff != "" {
		t.Errorf("rules (-file +chart):\n%s", diff)
	}
	for _, name := range []string{"cluster", "node", "scheduler", "workload"} {
		text, err := os.ReadFile(filepath.Join(deploy, "monitoring/dashboards", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if got := all["ConfigMap berth-system/berth-dashboard-"+name].at("data", name+".json"); got != string(text) {
			t.Errorf("the dashboard %s is another one", name)
		}
	}
}

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/controlplane"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/cluster/prometheus"
	"github.com/berth-project/berth/test/patience"
)

const (
	// collectorSpace and collector are the namespace and the account of Prometheus in docs/monitoring.md.
	collectorSpace = "monitoring"
	collector      = "prometheus"
	// jobs is the number of scrape jobs of the page: agent and scheduler.
	jobs = 2
	// scrapes is how many scrapes of each job have to succeed, because a rate needs two samples.
	scrapes = 2
	// tokenOfPods is the file of the token in the configurations of the page.
	tokenOfPods = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

// silent returns the queries without a sample on a healthy node, each with its reason. Each of them must have none, so
// that no query stays in this list when its reason is gone.
func silent() map[string]string {
	all := map[string]string{
		"count by (reason) (berth_node_pinnable == 0)": "the node is pinnable",
		`berth_host_profile_drift{instance=~".*"}`:     "no host profile is committed",
		"berth_host_profile_drift":                     "no host profile is committed",
		"berth_host_profile_in_force":                  "no host profile is committed",
	}
	if nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*"); err == nil && len(nodes) < 2 {
		all[`berth_memory_local_ratio{namespace=~".*"}`] = "this machine has one NUMA node, and no page is remote"
	}
	return all
}

// prometheus has a Prometheus scrape the agent and the scheduler with the configurations and the rights of
// docs/monitoring.md, while pods of each kind run. Every query of every dashboard and rule must have a sample then, but
// those of silent.
func (s *stage) prometheus(t *testing.T) {
	program := os.Getenv("BERTH_PROMETHEUS")
	if program == "" && os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal("BERTH_PROMETHEUS names no program; run: make verify-node")
	}
	if program == "" {
		t.Skip("needs a Prometheus, which make verify-node finds or downloads; runs in: make verify-node")
	}
	asked, quiet := queries(t), silent()
	s.eachKind(t)
	p := s.collect(t, program)
	left := asked[:0:0]
	for _, q := range asked {
		if quiet[q.Data] == "" {
			left = append(left, q)
		}
	}
	must(t, patience.Until(t.Context(), time.Second, func() string {
		var said string
		left, said = p.Unanswered(t.Context(), left)
		return said
	}))
	named := map[string]bool{}
	for _, q := range asked {
		named[q.Data] = true
	}
	for data, why := range quiet {
		if n, err := p.Samples(t.Context(), data); err != nil || n > 0 || !named[data] {
			t.Errorf("%s is in the list of queries without a sample, as %s: %d samples, %v; a dashboard or rule has it: %t", data, why, n, err, named[data])
		}
	}
}

// eachKind starts pods that burst, are pinned, are offline, and lack exclusive CPUs: a pod that the agent refuses, and
// a pod that the scheduler refuses. One core always stays in the shared pool, so no pod can get all CPUs.
func (s *stage) eachKind(t *testing.T) {
	t.Helper()
	all := func(p *v1.Pod) {
		pinned(p)
		p.Spec.Containers[0].Resources = cpu(strconv.Itoa(len(online())))
	}
	s.start(t, "neighbour")
	s.start(t, "held", pinned, annotated(localityKey, `{"policy":"bestEffort"}`))
	s.start(t, "busy", limited("400m"), spinning, annotated(burstKey, `{"policy":"auto","cfsQuotaBurstPercent":300}`))
	s.start(t, "offline", limited(""), labelled(classKey, "BE"))
	s.start(t, "refused", all, here)
	s.create(t, podOf("pending", all))
}

// queries returns the queries of this source tree.
func queries(t *testing.T) []prometheus.Query {
	t.Helper()
	root, err := cluster.Root()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "test", "monitoring"), "run", "./queries", root)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	must(t, err)
	var all []prometheus.Query
	must(t, json.Unmarshal(out, &all))
	if len(all) < 50 {
		t.Fatalf("the dashboards and rules have only %d queries", len(all))
	}
	return all
}

// collect starts Prometheus with the rules and the scrape configurations of this source tree, and waits until it has
// scraped each job twice.
func (s *stage) collect(t *testing.T, program string) prometheus.Server {
	t.Helper()
	root, err := cluster.Root()
	must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "monitoring.md"))
	must(t, err)
	dir := t.TempDir()
	token, config := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yaml")
	must(t, os.WriteFile(token, []byte(s.collectorToken(t, string(page))), 0o600))
	names := strings.NewReplacer("NODE", local.NodeName, "SCHEDULER", local.Address, tokenOfPods, token)
	must(t, os.WriteFile(config, scrapeConfig(t, names.Replace(string(page)), filepath.Join(root, "deploy", "monitoring", "rules.yaml")), 0o600))

	p := prometheus.Server{Address: freeAddress(t)}
	child, err := controlplane.StartChild(dir, "prometheus", program, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.Address)
	must(t, err)
	t.Cleanup(func() { must(t, child.Kill()) })
	must(t, patience.Until(t.Context(), time.Second, func() string {
		must(t, child.Alive())
		n, err := p.Samples(t.Context(), fmt.Sprintf("sum by (job) (sum_over_time(up[1h])) >= %d", scrapes))
		if err != nil || n != jobs {
			return fmt.Sprintf("%d jobs were scraped %d times, want %d: %s %s", n, scrapes, jobs, text(err), p.Troubles(t.Context()))
		}
		return ""
	}))
	return p
}

// collectorToken creates the account of Prometheus, binds it with the command of the page, and returns a token of it.
func (s *stage) collectorToken(t *testing.T, page string) string {
	t.Helper()
	var bind []string
	for _, block := range textBlocks(page) {
		if words := strings.Fields(block); strings.HasPrefix(block, "kubectl create clusterrolebinding ") && len(words) > 3 {
			bind = words[1:]
		}
	}
	if bind == nil {
		t.Fatal("docs/monitoring.md has no command that binds the role berth-viewer")
	}
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: collectorSpace}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { // A borrowed cluster stays.
		ctx := context.WithoutCancel(t.Context())
		must(t, s.client.CoreV1().Namespaces().Delete(ctx, collectorSpace, metav1.DeleteOptions{}))
		if err := s.client.RbacV1().ClusterRoleBindings().Delete(ctx, bind[2], metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			must(t, err)
		}
	})
	accounts := s.client.CoreV1().ServiceAccounts(collectorSpace)
	_, err = accounts.Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: collector}}, metav1.CreateOptions{})
	must(t, err)
	s.kubectl(t, bind...)
	seconds := int64((4 * time.Hour).Seconds())
	made, err := accounts.CreateToken(t.Context(), collector, &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	must(t, err)
	return made.Status.Token
}

// scrapeConfig returns the configuration of Prometheus: the scrape configurations of the page that send a token, and
// the rules. The page leaves the interval to its reader.
func scrapeConfig(t *testing.T, page, rules string) []byte {
	t.Helper()
	var all []any
	for _, block := range textBlocks(page) {
		if !strings.HasPrefix(block, "scrape_configs:\n") || !strings.Contains(block, "credentials_file") {
			continue // Another command, or a host without Kubernetes.
		}
		var one struct {
			Jobs []any `json:"scrape_configs"`
		}
		must(t, yaml.UnmarshalStrict([]byte(block), &one))
		all = append(all, one.Jobs...)
	}
	if len(all) != jobs {
		t.Fatalf("docs/monitoring.md has %d scrape jobs for a cluster, want %d", len(all), jobs)
	}
	out, err := yaml.Marshal(map[string]any{
		"global": map[string]any{"scrape_interval": "5s"}, "rule_files": []string{rules}, "scrape_configs": all,
	})
	must(t, err)
	return out
}

// textBlocks returns the blocks of a page that are marked as text.
func textBlocks(page string) (blocks []string) {
	for _, part := range strings.Split(page, "```text\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// freeAddress returns an address of this machine at which no program listens. Until Prometheus listens there, other
// programs may take the port at 127.0.0.1, as they do for each connection.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.83.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// query is an expression of a dashboard or of an alert rule, without the comparison of an alert.
type query struct {
	From string `json:"from"`
	Data string `json:"data"`
}

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

// prometheus has Debian's Prometheus scrape the agent and the scheduler with the configurations and the rights of
// docs/monitoring.md, while pods of each kind run. Every query of every dashboard and rule must have a sample then, but
// those of silent.
func (s *stage) prometheus(t *testing.T) {
	program := os.Getenv("BERTH_PROMETHEUS")
	if program == "" && os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal("BERTH_PROMETHEUS names no program; run: make verify-node")
	}
	if program == "" {
		t.Skip("needs Prometheus of Debian, which make verify-node downloads; runs in: make verify-node")
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
		left, said = p.unanswered(t.Context(), left)
		return said
	}))
	named := map[string]bool{}
	for _, q := range asked {
		named[q.Data] = true
	}
	for data, why := range quiet {
		if n, err := p.samples(t.Context(), data); err != nil || n > 0 || !named[data] {
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
func queries(t *testing.T) []query {
	t.Helper()
	root, err := cluster.Root()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "test", "monitoring"), "run", "./queries", root)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	must(t, err)
	var all []query
	must(t, json.Unmarshal(out, &all))
	if len(all) < 50 {
		t.Fatalf("the dashboards and rules have only %d queries", len(all))
	}
	return all
}

// collect starts Prometheus with the rules and the scrape configurations of this source tree, and waits until it has
// scraped each job twice.
func (s *stage) collect(t *testing.T, program string) collected {
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

	p := collected{address: freeAddress(t)}
	child, err := controlplane.StartChild(dir, "prometheus", program, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	must(t, err)
	t.Cleanup(func() { must(t, child.Kill()) })
	must(t, patience.Until(t.Context(), time.Second, func() string {
		must(t, child.Alive())
		n, err := p.samples(t.Context(), fmt.Sprintf("sum by (job) (sum_over_time(up[1h])) >= %d", scrapes))
		if err != nil || n != jobs {
			return fmt.Sprintf("%d jobs were scraped %d times, want %d: %s %s", n, scrapes, jobs, text(err), p.troubles(t.Context()))
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

// freeAddress returns an address of this machine at which no program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// collected is the data of a Prometheus at an address.
type collected struct{ address string }

// unanswered returns the queries without a sample, and a text about them.
func (p collected) unanswered(ctx context.Context, all []query) (left []query, said string) {
	for _, q := range all {
		n, err := p.samples(ctx, q.Data)
		if n > 0 && err == nil {
			continue
		}
		left = append(left, q)
		said += fmt.Sprintf("no sample: %s: %s %s\n", q.From, q.Data, text(err))
	}
	return left, said
}

// samples returns how many samples an expression has now.
func (p collected) samples(ctx context.Context, expr string) (int, error) {
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return len(answer.Data.Result), err
}

// troubles returns the errors of the last scrapes.
func (p collected) troubles(ctx context.Context) (all string) {
	var answer struct {
		Data struct {
			ActiveTargets []struct{ ScrapeURL, LastError string }
		}
	}
	if err := p.get(ctx, "/api/v1/targets", &answer); err != nil {
		return err.Error()
	}
	for _, target := range answer.Data.ActiveTargets {
		if target.LastError != "" {
			all += fmt.Sprintf("%s: %s\n", target.ScrapeURL, target.LastError)
		}
	}
	return all
}

func (p collected) get(ctx context.Context, path string, to any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		return fmt.Errorf("%s of Prometheus, status %s: %w", path, answer.Status, err)
	}
	return nil
}

// TestUnanswered checks that a query without a sample, and a query that Prometheus refuses, count as unanswered.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"some":  `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}`,
		"none":  `{"status":"success","data":{"resultType":"vector","result":[]}}`,
		"wrong": `{"status":"error","errorType":"bad_data","error":"parse error"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.URL.Query().Get("query")]))
	}))
	defer server.Close()
	p := collected{address: server.Listener.Addr().String()}
	left, said := p.unanswered(t.Context(), []query{{"a", "some"}, {"b", "none"}, {"c", "wrong"}})
	if len(left) != 2 || left[0].Data != "none" || left[1].Data != "wrong" || !strings.Contains(said, "c: wrong parse error") {
		t.Errorf("unanswered are %v: %s", left, said)
	}
}

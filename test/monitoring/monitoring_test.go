package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../.."

// target are the labels that Prometheus itself adds to each series.
var target = []string{"instance", "job"}

// exported returns the labels of each metric that a query may name.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{
		// Metrics of Prometheus itself, and of every Go process.
		"up": nil, "process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil,
	}
	own := regexp.MustCompile("(?m)^\\| `(berth_[a-z_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\|")
	for _, row := range own.FindAllStringSubmatch(page(t, "docs/metrics.md"), -1) {
		var of []string
		for _, label := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[3], -1) {
			of = append(of, label[1])
		}
		if row[2] == "histogram" {
			all[row[1]+"_bucket"], all[row[1]+"_count"], all[row[1]+"_sum"] = append(of, "le"), of, of
			continue
		}
		all[row[1]] = of
	}
	scheduler := regexp.MustCompile("(?m)^\\| `(berth_scheduler_[a-z_]+)` \\| (.*) \\|$")
	for _, row := range scheduler.FindAllStringSubmatch(page(t, "docs/scheduling.md"), -1) {
		all[row[1]] = []string{"reason", "result", "state"}
	}
	if len(all) < 40 {
		t.Fatalf("found %d metrics in the reference pages", len(all))
	}
	return all
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	all, err := readDashboards(os.DirFS(root))
	if err != nil || len(all) != 4 {
		t.Fatalf("%d dashboards, %v", len(all), err)
	}
	return all
}

func alerts(t *testing.T) rules {
	t.Helper()
	r, err := readRules(os.DirFS(root))
	if err != nil || len(r.Groups) == 0 {
		t.Fatal(err, r)
	}
	return r
}

// check parses a query and compares its metrics and labels with the exported ones. It records the metrics in used, and
// returns the faults.
func check(query string, metrics map[string][]string, used map[string]bool) []string {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	may := slices.Clone(target)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of, known := metrics[selector.Name]
		if !known {
			found = append(found, "no program exports "+selector.Name)
		}
		used[selector.Name] = true
		may = append(may, of...)
		for _, m := range selector.LabelMatchers {
			if m.Name != labels.MetricName && !slices.Contains(append(slices.Clip(of), target...), m.Name) {
				found = append(found, selector.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if by, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range by.Grouping {
				if !slices.Contains(may, label) {
					found = append(found, "no metric of it has the label "+label)
				}
			}
		}
		return nil
	})
	return found
}

// TestQueries checks that each query of each panel and rule parses, and uses only exported metrics and labels. So must
// the query without the comparisons of an alert.
func TestQueries(t *testing.T) {
	queries, err := Queries(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	metrics, used := exported(t), map[string]bool{}
	for _, q := range queries {
		for _, expr := range []string{q.Expr, q.Data} {
			for _, wrong := range check(expr, metrics, used) {
				t.Errorf("%s: %s in %s", q.From, wrong, expr)
			}
		}
	}
	if len(used) < 30 {
		t.Errorf("all queries together ask for %d metrics only", len(used))
	}
}

// TestWithoutComparisons shows what is left of an alert whose comparison is removed.
func TestWithoutComparisons(t *testing.T) {
	for query, want := range map[string]string{
		`up{job="berth-agent"} == 0`:                  `up{job="berth-agent"}`,
		"increase(a[10m]) > 0":                        "increase(a[10m])",
		"rate(a[5m]) / rate(b[5m]) > 0.05 and c > 1":  "rate(a[5m]) / rate(b[5m]) and c",
		"sum by (x) (a > 1)":                          "sum by (x) (a > 1)",
		"a > b":                                       "a > b",
		"a > bool 1":                                  "a > bool 1",
		"histogram_quantile(0.99, rate(a[5m])) > 0.5": "histogram_quantile(0.99, rate(a[5m]))",
	} {
		if got, err := withoutComparisons(query); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", query, got, err, want)
		}
	}
	if _, err := withoutComparisons("rate(a"); err == nil {
		t.Error("a query that does not parse is taken")
	}
}

// TestCheckFindsFaults gives check faulty queries, because a check that never fails protects nothing.
func TestCheckFindsFaults(t *testing.T) {
	for _, query := range []string{"sum(berth_nothing)", `berth_build_info{group="x"}`, "sum by (group) (berth_build_info)", "rate(berth_build_info"} {
		if found := check(query, exported(t), map[string]bool{}); len(found) != 1 {
			t.Errorf("%s: found %q, want one fault", query, found)
		}
	}
}

// TestPanels checks that each dashboard has a unique name, and panels with a query, a title and a description that do
// not overlap.
func TestPanels(t *testing.T) {
	seen := map[string]string{}
	for _, d := range dashboards(t) {
		name := d.file
		if before := seen[d.UID]; d.UID == "" || d.Title == "" || before != "" {
			t.Errorf("%s: uid %q, title %q, and %s has the same", name, d.UID, d.Title, before)
		}
		seen[d.UID] = name
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.Description == "" {
				t.Errorf("%s: panel %d, %q, %q", name, p.ID, p.Title, p.Description)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s asks for nothing", name, p.Title)
			}
			ids[p.ID] = true
			if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %s is at %+v", name, p.Title, p.GridPos)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := cells[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %s lies on %s", name, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// TestEachAlertIsTested checks that promtool runs a case in which each alert fires and one in which it does not, and
// that each alert names a page.
func TestEachAlertIsTested(t *testing.T) {
	cases := page(t, "deploy/monitoring/rules_test.yaml")
	for _, group := range alerts(t).Groups {
		for _, rule := range group.Rules {
			if n := strings.Count(cases, "alertname: "+rule.Alert+"\n"); n < 2 {
				t.Errorf("%s has %d cases in rules_test.yaml", rule.Alert, n)
			}
			file, _, _ := strings.Cut(rule.Annotations["runbook"], "#")
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || file == "" {
				t.Errorf("%s: runbook %q: %v", rule.Alert, file, err)
			}
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary or no severity", rule.Alert)
			}
		}
	}
}

package monitoring

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v2"
)

// Paths below the root of the source tree.
const (
	dashboardFiles = "deploy/monitoring/dashboards/*.json"
	ruleFile       = "deploy/monitoring/rules.yaml"
)

// Query is an expression of a panel or of an alert rule.
type Query struct {
	// From names the file, and the panel or the alert in it.
	From string `json:"from"`
	// Expr is the expression. Each variable of Grafana in it is a pattern that matches every value.
	Expr string `json:"expr"`
	// Data is Expr without the comparisons of an alert, so that it has a sample also while the alert does not fire. For
	// a panel it is Expr.
	Data string `json:"data"`
}

// Queries returns the queries of all panels and rules of a source tree, in the order of the files.
func Queries(tree fs.FS) ([]Query, error) {
	all, err := readDashboards(tree)
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, d := range all {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				expr := withoutVariables(q.Expr)
				queries = append(queries, Query{From: d.file + ": " + p.Title, Expr: expr, Data: expr})
			}
		}
	}
	r, err := readRules(tree)
	if err != nil {
		return nil, err
	}
	for _, group := range r.Groups {
		for _, rule := range group.Rules {
			data, err := withoutComparisons(rule.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: alert %s: %w", ruleFile, rule.Alert, err)
			}
			queries = append(queries, Query{From: path.Base(ruleFile) + ": " + rule.Alert, Expr: rule.Expr, Data: data})
		}
	}
	return queries, nil
}

// withoutVariables replaces the variables of Grafana, which stand in regular expressions.
func withoutVariables(query string) string {
	return regexp.MustCompile(`\$\w+`).ReplaceAllString(query, ".*")
}

// withoutComparisons returns what the comparisons of a rule filter: the left sides of all comparisons with a number,
// also below and, or and unless.
func withoutComparisons(query string) (string, error) {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return "", fmt.Errorf("query %q: %w", query, err)
	}
	return unfiltered(expr).String(), nil
}

func unfiltered(expr parser.Expr) parser.Expr {
	binary, ok := expr.(*parser.BinaryExpr)
	if !ok {
		return expr
	}
	_, number := binary.RHS.(*parser.NumberLiteral)
	switch {
	case binary.Op.IsComparisonOperator() && number && !binary.ReturnBool:
		return unfiltered(binary.LHS)
	case binary.Op.IsSetOperator():
		binary.LHS, binary.RHS = unfiltered(binary.LHS), unfiltered(binary.RHS)
	}
	return binary
}

// dashboard is the part of a dashboard that this package reads.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
	Panels []panel
	// file is the name of the dashboard's file.
	file string
}

type panel struct {
	ID                 int
	Title, Description string
	GridPos            struct{ H, W, X, Y int }
	Targets            []struct{ Expr, LegendFormat string }
}

// readDashboards returns the dashboards of a source tree in the order of their files.
func readDashboards(tree fs.FS) ([]dashboard, error) {
	names, err := fs.Glob(tree, dashboardFiles)
	if err != nil {
		return nil, fmt.Errorf("dashboards %s: %w", dashboardFiles, err)
	}
	slices.Sort(names)
	var all []dashboard
	for _, name := range names {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
		d := dashboard{file: path.Base(name)}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", name, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// rules are the alerts of the rule file.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(tree fs.FS) (rules, error) {
	var r rules
	text, err := fs.ReadFile(tree, ruleFile)
	if err != nil {
		return r, fmt.Errorf("rules: %w", err)
	}
	if err := yaml.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("rules %s: %w", ruleFile, err)
	}
	return r, nil
}

package monitoring

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A rule returns the faults of a value at a place of a dashboard.
type rule func(at string, value any) []string

// dashboardRule returns the rules of the schema that Grafana publishes for a dashboard, for stat panels and for queries
// of Prometheus (github.com/grafana/grafana-foundation-sdk, folder jsonschema). They are written here by hand, and only
// for the fields that a dashboard of Berth has or is likely to get: a field without a rule is a fault. Unlike the
// schema, the rules require no option of a stat panel, since Grafana has a default for each.
func dashboardRule() rule {
	return object([]string{"schemaVersion", "templating", "annotations"}, map[string]rule{
		"uid": length(8, 40), "title": is[string], "description": is[string], "tags": list(is[string]), "timezone": is[string],
		"editable": is[bool], "graphTooltip": whole(0, 2), "refresh": is[string], "schemaVersion": whole(1, math.MaxInt32), "version": whole(0, math.MaxInt32),
		"time":        object([]string{"from", "to"}, map[string]rule{"from": is[string], "to": is[string]}),
		"annotations": object(nil, map[string]rule{"list": list(annotationRule())}),
		"templating":  object(nil, map[string]rule{"list": list(variableRule())}),
		"panels":      list(panelRule()),
	})
}

func annotationRule() rule {
	return object([]string{"name", "datasource", "enable", "iconColor"}, map[string]rule{
		"name": is[string], "datasource": sourceRule(), "enable": is[bool], "hide": is[bool], "iconColor": is[string], "type": is[string],
		"builtIn": is[float64],
	})
}

func variableRule() rule {
	option := either(is[string], list(is[string]))
	return object([]string{"type", "name"}, map[string]rule{
		"type": word("query", "adhoc", "constant", "datasource", "interval", "textbox", "custom", "system"),
		"name": is[string], "label": is[string], "description": is[string], "query": either(is[string], is[map[string]any]),
		"datasource": sourceRule(), "regex": is[string], "allValue": is[string],
		"multi": is[bool], "includeAll": is[bool], "skipUrlSync": is[bool],
		"hide": whole(0, 2), "refresh": whole(0, 2), "sort": whole(0, 8),
		"current": object([]string{"text", "value"}, map[string]rule{"selected": is[bool], "text": option, "value": option}),
	})
}

func sourceRule() rule { return object(nil, map[string]rule{"type": is[string], "uid": is[string]}) }

// panelRule returns the rule of a panel. Its options depend on its type.
func panelRule() rule {
	fields := map[string]rule{
		"id": whole(0, math.MaxInt32), "type": is[string], "title": is[string], "description": is[string], "transparent": is[bool],
		"interval": is[string], "datasource": sourceRule(), "targets": list(queryRule()), "fieldConfig": fieldsRule(),
		"gridPos": object([]string{"h", "w", "x", "y"}, map[string]rule{
			"h": whole(1, math.MaxInt32), "w": whole(1, 24), "x": whole(0, 23), "y": whole(0, math.MaxInt32),
		}),
	}
	options := map[string]rule{"stat": statRule(), "timeseries": object(nil, nil), "table": object(nil, nil)}
	return func(at string, value any) []string {
		panel, _ := value.(map[string]any)
		kind, _ := panel["type"].(string)
		its, known := options[kind]
		if !known {
			return []string{fmt.Sprintf("%s: type is %q, and there are rules for %q", at, kind, slices.Sorted(maps.Keys(options)))}
		}
		all := maps.Clone(fields)
		all["options"] = its
		return object([]string{"type"}, all)(at, value)
	}
}

// queryRule returns the rule of a query of Prometheus.
func queryRule() rule {
	return object([]string{"expr"}, map[string]rule{
		"expr": is[string], "legendFormat": is[string], "refId": is[string], "queryType": is[string], "interval": is[string],
		"instant": is[bool], "range": is[bool], "exemplar": is[bool], "hide": is[bool],
		"format": word("time_series", "table", "heatmap"), "editorMode": word("code", "builder"), "datasource": sourceRule(),
	})
}

// fieldsRule returns the rule of how the values of a panel look.
func fieldsRule() rule {
	return object([]string{"defaults", "overrides"}, map[string]rule{
		"defaults": object(nil, map[string]rule{
			"unit": is[string], "decimals": is[float64], "min": is[float64], "max": is[float64], "displayName": is[string], "noValue": is[string],
		}),
		"overrides": list(object([]string{"matcher", "properties"}, map[string]rule{
			"matcher":    object([]string{"id"}, map[string]rule{"id": is[string], "options": anything}),
			"properties": list(object([]string{"id"}, map[string]rule{"id": is[string], "value": anything})),
		})),
	})
}

func statRule() rule {
	return object(nil, map[string]rule{
		"graphMode": word("none", "line", "area"), "colorMode": word("value", "background", "background_solid", "none"),
		"justifyMode": word("auto", "center"), "textMode": word("auto", "value", "value_and_name", "name", "none"),
		"orientation": word("auto", "vertical", "horizontal"), "wideLayout": is[bool],
		"reduceOptions": object([]string{"calcs"}, map[string]rule{
			"calcs": list(is[string]), "fields": is[string], "values": is[bool], "limit": is[float64],
		}),
	})
}

// anything is the rule of a value that the schema leaves open.
func anything(string, any) []string { return nil }

// is is the rule that a value has a type.
func is[T any](at string, value any) []string {
	if _, ok := value.(T); !ok {
		return []string{fmt.Sprintf("%s: %v is a %T, want a %T", at, value, value, *new(T))}
	}
	return nil
}

// whole is the rule that a value is a whole number within bounds.
func whole(least, most float64) rule {
	return func(at string, value any) []string {
		if n, ok := value.(float64); !ok || n != math.Trunc(n) || n < least || n > most {
			return []string{fmt.Sprintf("%s: %v is no whole number from %v to %v", at, value, least, most)}
		}
		return nil
	}
}

// length is the rule that a value is a text with a number of characters within bounds.
func length(least, most int) rule {
	return func(at string, value any) []string {
		if s, ok := value.(string); !ok || utf8.RuneCountInString(s) < least || utf8.RuneCountInString(s) > most {
			return []string{fmt.Sprintf("%s: %v is no text of %d to %d characters", at, value, least, most)}
		}
		return nil
	}
}

// word is the rule that a value is a text of a list.
func word(all ...string) rule {
	return func(at string, value any) []string {
		if s, ok := value.(string); !ok || !slices.Contains(all, s) {
			return []string{fmt.Sprintf("%s: %v is none of %q", at, value, all)}
		}
		return nil
	}
}

// list is the rule that a value is a list whose elements follow a rule.
func list(each rule) rule {
	return func(at string, value any) (found []string) {
		elements, ok := value.([]any)
		if !ok {
			return is[[]any](at, value)
		}
		for i, element := range elements {
			found = append(found, each(fmt.Sprintf("%s[%d]", at, i), element)...)
		}
		return found
	}
}

// either is the rule that a value follows one of two rules.
func either(one, other rule) rule {
	return func(at string, value any) []string {
		found := one(at, value)
		if len(found) == 0 {
			return nil
		}
		if more := other(at, value); len(more) > 0 {
			return append(found, more...)
		}
		return nil
	}
}

// object is the rule that a value is an object with required fields, and that each of its fields has a rule and follows
// it.
func object(required []string, fields map[string]rule) rule {
	return func(at string, value any) (found []string) {
		members, ok := value.(map[string]any)
		if !ok {
			return is[map[string]any](at, value)
		}
		for _, name := range required {
			if _, there := members[name]; !there {
				found = append(found, at+": has no "+name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			follow, known := fields[name]
			if !known {
				found = append(found, at+": the schema has no field "+name+", or this test has no rule for it yet")
				continue
			}
			found = append(found, follow(at+"."+name, members[name])...)
		}
		return found
	}
}

// TestDashboardsFollowTheSchema checks each dashboard against the rules.
func TestDashboardsFollowTheSchema(t *testing.T) {
	tree := os.DirFS(root)
	names, err := fs.Glob(tree, dashboardFiles)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 4 {
		t.Fatalf("%d dashboards, want 4: %q", len(names), names)
	}
	for _, name := range names {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range faults(t, string(text)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// faults returns the faults of the text of a dashboard.
func faults(t *testing.T, text string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return dashboardRule()("dashboard", value)
}

// TestSchemaFindsFaults changes a dashboard that follows the rules, and expects a fault at the place of each change.
func TestSchemaFindsFaults(t *testing.T) {
	const right = `{"uid":"berth-test","schemaVersion":39,"annotations":{"list":[{"name":"n","datasource":{"type":"prometheus"},"enable":true,"iconColor":"red"}]},"time":{"from":"now-1h","to":"now"},
"templating":{"list":[{"type":"query","name":"node","query":{"query":"q"},"refresh":2,"current":{"text":"All","value":["a"]}}]},
"panels":[{"type":"stat","gridPos":{"h":4,"w":6,"x":0,"y":0},"targets":[{"expr":"up","format":"table"}],
"fieldConfig":{"defaults":{"unit":"s","min":0},"overrides":[{"matcher":{"id":"byName","options":"a"},"properties":[{"id":"unit","value":"s"}]}]},"options":{"colorMode":"none","reduceOptions":{"calcs":["last"]}}}]}`
	if found := faults(t, right); len(found) > 0 {
		t.Fatalf("%q", found)
	}
	for _, c := range []struct{ old, new, at string }{
		{`"schemaVersion":39,`, ``, "dashboard: has no schemaVersion"},
		{`"schemaVersion":39`, `"schemaVersion":"39"`, "dashboard.schemaVersion: "},
		{`"schemaVersion":39`, `"schemaVersion":39.5`, "dashboard.schemaVersion: "},
		{`"uid":"berth-test"`, `"uid":"short"`, "dashboard.uid: "},
		{`"uid":"berth-test"`, `"uid":"berth-test","rows":[]`, "dashboard: the schema has no field rows"},
		{`"to":"now"`, `"until":"now"`, "dashboard.time: has no to"},
		{`"enable":true,`, ``, "dashboard.annotations.list[0]: has no enable"},
		{`"iconColor":"red"`, `"iconColor":"red","color":"red"`, "dashboard.annotations.list[0]: the schema has no field color"},
		{`"type":"query"`, `"type":"list"`, "dashboard.templating.list[0].type: "},
		{`"query":{"query":"q"}`, `"query":["q"]`, "dashboard.templating.list[0].query: "},
		{`"refresh":2`, `"refresh":3`, "dashboard.templating.list[0].refresh: "},
		{`"value":["a"]`, `"value":[1]`, "dashboard.templating.list[0].current.value[0]: "},
		{`"type":"stat"`, `"type":"graph"`, "dashboard.panels[0]: type is "},
		{`"w":6`, `"w":25`, "dashboard.panels[0].gridPos.w: "},
		{`,"y":0`, ``, "dashboard.panels[0].gridPos: has no y"},
		{`"expr":"up"`, `"query":"up"`, "dashboard.panels[0].targets[0]: has no expr"},
		{`"format":"table"`, `"format":"csv"`, "dashboard.panels[0].targets[0].format: "},
		{`"overrides":[`, `"override":[`, "dashboard.panels[0].fieldConfig: has no overrides"},
		{`"matcher":{"id":"byName",`, `"matcher":{`, "dashboard.panels[0].fieldConfig.overrides[0].matcher: has no id"},
		{`"properties":[{"id":"unit"`, `"properties":[{"id":1`, "dashboard.panels[0].fieldConfig.overrides[0].properties[0].id: "},
		{`"unit":"s"`, `"units":"s"`, "dashboard.panels[0].fieldConfig.defaults: the schema has no field units"},
		{`"min":0`, `"min":"0"`, "dashboard.panels[0].fieldConfig.defaults.min: "},
		{`"colorMode":"none"`, `"colorMode":"off"`, "dashboard.panels[0].options.colorMode: "},
		{`{"calcs":["last"]}`, `{}`, "dashboard.panels[0].options.reduceOptions: has no calcs"},
	} {
		changed := strings.Replace(right, c.old, c.new, 1)
		if changed == right {
			t.Errorf("%s is not in the dashboard", c.old)
		}
		found := faults(t, changed)
		if !slices.ContainsFunc(found, func(fault string) bool { return strings.HasPrefix(fault, c.at) }) {
			t.Errorf("%s in place of %s: found %q, want a fault that begins with %s", c.new, c.old, found, c.at)
		}
	}
}

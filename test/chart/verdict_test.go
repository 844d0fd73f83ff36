package chart

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the property
)

// element is the step of a path from a list to each of its elements.
const element = "[]"

// part is a part of the values that agent or scheduler decode.
type part struct {
	at     string         // The path in the values: "agent.config".
	kind   reflect.Type   // The type into which the program decodes the part.
	base   map[string]any // The manifest's content, into which the chart merges the part.
	decode func(data []byte) v1alpha1.FieldErrors
}

func parts(t *testing.T) []part {
	t.Helper()
	file, _ := manifests(t, "agent/config.yaml")["ConfigMap berth-system/berth-agent"].at("data", "agent.yaml").(string)
	none := map[string]any{}
	return []part{
		{"agent.config", reflect.TypeFor[v1alpha1.AgentConfig](), values(t, file), decodeAgent},
		{"scheduler.args", reflect.TypeFor[v1alpha1.SchedulerArgs](), none, decodeArgs},
		{"config.cpu-burst-config", reflect.TypeFor[v1alpha1.BurstStrategies](), none, strict(v1alpha1.DecodeBurstStrategies)},
		{"config.resource-qos-config", reflect.TypeFor[v1alpha1.ResourceQOSStrategies](), none, strict(v1alpha1.DecodeResourceQOS)},
		{"config.resource-threshold-config", reflect.TypeFor[v1alpha1.ResourceThresholdStrategies](), none, strict(v1alpha1.DecodeResourceThreshold)},
	}
}

// decodeAgent checks the agent's file as the agent does.
func decodeAgent(data []byte) v1alpha1.FieldErrors {
	cfg, problems := v1alpha1.DecodeAgentConfig(data)
	if _, err := cpuset.Parse(cfg.ReservedCPUs); err != nil {
		problems = append(problems, v1alpha1.FieldError{Field: "reservedCPUs", Value: v1alpha1.Show(cfg.ReservedCPUs), Allowed: err.Error()})
	}
	return problems
}

func decodeArgs(data []byte) v1alpha1.FieldErrors {
	_, problems := v1alpha1.DecodeSchedulerArgs(data)
	return problems
}

// strict also refuses unknown fields, as the agent does in Berth's own ConfigMap.
func strict[T any](decode func(string) (T, v1alpha1.FieldErrors, v1alpha1.FieldErrors)) func([]byte) v1alpha1.FieldErrors {
	return func(data []byte) v1alpha1.FieldErrors {
		_, refused, unknown := decode(string(data))
		return append(refused, unknown...)
	}
}

// problems returns the problems that the program finds in a value of the part.
func (p part) problems(value any) v1alpha1.FieldErrors {
	data, err := json.Marshal(merged(p.base, value))
	if err != nil {
		return v1alpha1.FieldErrors{{Field: p.at, Allowed: err.Error()}}
	}
	return p.decode(data)
}

// unexpected returns the problems that the schema has to prevent.
func (p part) unexpected(value any) v1alpha1.FieldErrors {
	return slices.DeleteFunc(p.problems(value), func(problem v1alpha1.FieldError) bool {
		return problem.Field != "" && slices.ContainsFunc(rules(), func(r rule) bool {
			return r.part == p.at && r.field == anyIndex(problem.Field)
		})
	})
}

// merged returns the content that the chart makes of a manifest and a value: it merges objects field by field.
func merged(base, value any) any {
	under, isObject := base.(map[string]any)
	over, both := value.(map[string]any)
	switch {
	case value == nil:
		return base
	case !isObject || !both:
		return value
	}
	all := maps.Clone(under)
	for name, inner := range over {
		all[name] = merged(all[name], inner)
	}
	return all
}

func join(path []string, step string) []string { return append(slices.Clone(path), step) }

// steps is the inverse of place.
func steps(place string) []string {
	return strings.Split(strings.ReplaceAll(place, element, "."+element), ".")
}

// place returns a path as text: "web.hosts[]".
func place(path []string) string {
	return strings.ReplaceAll(strings.Join(path, "."), "."+element, element)
}

// anyIndex replaces the indices in the path of a field, so that it equals a place.
func anyIndex(field string) string {
	return regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(field, element)
}

// document returns an object with only a value at a path. The strategies of nodes also get their required selector.
func document(path []string, value any) any {
	for i, step := range slices.Backward(path) {
		if step != element {
			value = map[string]any{step: value}
			continue
		}
		if fields, isObject := value.(map[string]any); isObject && path[i-1] == "nodeStrategies" {
			strategy := map[string]any{"nodeSelector": map[string]any{}}
			maps.Copy(strategy, fields)
			value = strategy
		}
		value = []any{value}
	}
	return value
}

// schema is values.schema.json as Helm reads it.
type schema struct {
	text     object
	compiled *jsonschema.Schema
}

func readSchema(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const name = "file:///values.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := parsed.(map[string]any)
	return schema{all, compiled}
}

// of returns the schema of a part.
func (s schema) of(p part) any {
	var path []any
	for step := range strings.SplitSeq(p.at, ".") {
		path = append(path, "properties", step)
	}
	return s.text.at(path...)
}

// refusal returns why Helm refuses a value of a part, nil if Helm takes it.
func (s schema) refusal(p part, value any) error {
	return s.compiled.Validate(document(strings.Split(p.at, "."), value))
}

// follow returns the definition to which a schema refers, or the schema itself.
func (s schema) follow(of any) object {
	inner, _ := of.(map[string]any)
	reference, _ := inner["$ref"].(string)
	if name, found := strings.CutPrefix(reference, "#/$defs/"); found {
		return s.follow(s.text.at("$defs", name))
	}
	return inner
}

// walk visits a schema, and the schemas of all fields and elements in it.
func (s schema) walk(path []string, of any, visit func(path []string, of object)) {
	inner := s.follow(of)
	visit(path, inner)
	if items, isList := inner["items"]; isList {
		s.walk(join(path, element), items, visit)
	}
	properties, _ := inner["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		s.walk(join(path, name), properties[name], visit)
	}
}

// compare checks that Helm and the program agree about a value, and returns whether Helm takes it.
func (s schema) compare(t *testing.T, p part, value any) bool {
	t.Helper()
	refusal := s.refusal(p, value)
	problems := p.unexpected(value)
	if refusal != nil {
		problems = p.problems(value)
	}
	if (refusal == nil) != (len(problems) == 0) {
		t.Errorf("%s: %s\nHelm: %v\nprogram: %v", p.at, v1alpha1.Show(value), refusal, problems.Err())
	}
	return refusal == nil
}

// rule is a rule of a program that a schema cannot express, with a value that only the program refuses.
type rule struct {
	part, field string
	path        []string
	value       any
	why         string
}

// rules is the list of these rules. docs/chart.md has them for users.
func rules() []rule {
	var deep any = "x"
	for range 20 {
		deep = map[string]any{"inner": deep}
	}
	agent := func(field string, value any, why string) rule {
		return rule{part: "agent.config", field: field, path: steps(field), value: value, why: why}
	}
	return []rule{
		agent("reservedCPUs", "3-1", "no range begins above its end, and its groups have CPUs"),
		agent("sharedPool[]", strings.Repeat("a", 4096), "a path is shorter than 4096 bytes: a schema counts characters"),
		agent("web.hosts[]", ":::", "the form of an IPv6 address"),
		agent("cluster.kubeletURL", "https://[:::]", "the form of an IPv6 address"),
		agent("history.retention", "14m", "15m to 744h, in any unit"),
		agent("history.maxBytes", "5Gi", "1Mi to 4Gi, in any unit"),
		{
			part: "agent.config", path: steps("resource-qos-config.clusterStrategy.cgroupRoot"), value: map[string]any{"inner": deep},
			why: "objects of Koordinator nest no deeper than the decoder reads",
		},
	}
}

// TestRulesOfPrograms checks that each rule of the list is needed: Helm takes its value, and the program refuses it.
func TestRulesOfPrograms(t *testing.T) {
	s, all := readSchema(t), parts(t)
	for _, r := range rules() {
		i := slices.IndexFunc(all, func(p part) bool { return p.at == r.part })
		value := document(r.path, r.value)
		if err := s.refusal(all[i], value); err != nil {
			t.Errorf("%s: the schema knows the rule: %v", r.why, err)
		}
		problems := all[i].problems(value)
		if len(problems) == 0 || slices.ContainsFunc(problems, func(p v1alpha1.FieldError) bool { return anyIndex(p.Field) != r.field }) {
			t.Errorf("%s: the problems of field %q are %v", r.why, r.field, problems.Err())
		}
	}
}

// TestStricterThanPrograms checks the forms of a URL that the agent takes and Helm refuses, see docs/chart.md.
func TestStricterThanPrograms(t *testing.T) {
	s, all := readSchema(t), parts(t)
	agent := all[slices.IndexFunc(all, func(p part) bool { return p.at == "agent.config" })]
	for _, text := range []string{"https://user@node", "https://node/?a=b", "https://node/#a", "HTTPS://node"} {
		value := document(steps("cluster.kubeletURL"), text)
		if s.refusal(agent, value) == nil {
			t.Errorf("Helm takes %q", text)
		}
		if problems := agent.problems(value); len(problems) > 0 {
			t.Errorf("the agent refuses %q: %v", text, problems.Err())
		}
	}
}

// TestNull checks that Helm refuses null in place of the value of a field, and that the programs take it for a missing
// field.
func TestNull(t *testing.T) {
	s := readSchema(t)
	for _, p := range parts(t) {
		s.walk(nil, s.of(p), func(path []string, _ object) {
			if len(path) == 0 {
				return // Helm drops a null that stands for a part.
			}
			null := document(path, nil)
			if s.refusal(p, null) == nil {
				t.Errorf("%s: Helm takes null for %s", p.at, place(path))
			}
			above, last := path[:len(path)-1], path[len(path)-1]
			if last == element || last == "nodeSelector" {
				return // no element is missing, and each strategy needs its selector
			}
			got, missing := p.problems(null), p.problems(document(above, map[string]any{}))
			if !slices.Equal(got, missing) {
				t.Errorf("%s: %s is null: %v; is missing: %v", p.at, place(path), got.Err(), missing.Err())
			}
		})
	}
}

// candidates returns values of each type, and the values at both sides of the bounds of a schema.
func candidates(of object) []any {
	many := make([]any, 1025)
	for i := range many {
		many[i] = "n" + strconv.Itoa(i)
	}
	all := []any{
		"nonsense", "", false, true, int64(0), int64(1), 1.5,
		[]any{},
		[]any{"a", "a"},
		many[:1024], many,
		map[string]any{},
		map[string]any{"unknown": int64(1)},
	}
	words, _ := of["enum"].([]any)
	all = append(all, words...)
	forms, _ := of["anyOf"].([]any)
	for _, form := range append(slices.Clip(forms), map[string]any(of)) {
		inner, _ := form.(map[string]any)
		for bound, outside := range map[string]int64{"minimum": -1, "maximum": 1} {
			if number, there := inner[bound].(json.Number); there {
				n, _ := number.Int64()
				all = append(all, n, n+outside)
			}
		}
	}
	return all
}

// TestEachField gives each field values of each type, and each object an unknown field. Helm must take a value if the
// program takes it, and no other value.
func TestEachField(t *testing.T) {
	s := readSchema(t)
	for _, p := range parts(t) {
		s.walk(nil, s.of(p), func(path []string, of object) {
			for _, value := range candidates(of) {
				s.compare(t, p, document(path, value))
			}
		})
	}
}

// TestTexts checks that Helm and the programs agree about the form of texts.
func TestTexts(t *testing.T) {
	type texts struct{ good, bad []string }
	s := readSchema(t)
	for _, p := range parts(t) {
		for place, c := range map[string]map[string]texts{
			"agent.config": {
				"reservedCPUs": {[]string{"0-1,4", "0-31:2/4", "007", "1023", "0-3\n"}, []string{"0 - 3", "1024", "0,", "-1", "0-", "all"}},
				"sharedPool[]": {
					[]string{"system.slice/redis.service", ".a/..b/...", "kubepods", "ä/ö"},
					[]string{"/system.slice", "a//b", "a/", "a/./b", "a/../b", ".", "..", "../a", "a\tb"},
				},
				"web.hosts[]":                  {[]string{"node-1.example.com", "10.0.0.1", "::1", "::ffff:10.0.0.1"}, []string{"node:9316", "https://node", "*.example.com", "[::1]", "a b"}},
				"history.retention":            {[]string{"15m", "1h30m", "744h", "+.5h", "90.m"}, []string{"1 hour", "24", "2d", "-1h", "h", "1h "}},
				"history.maxBytes":             {[]string{"1Mi", "1048576", "4Gi", "2048Ki"}, []string{"64MB", "1.5Gi", "-1", "1e7", "64 Mi", "Gi"}},
				"cluster.kubeletURL":           {[]string{"https://127.0.0.1:10250", "https://[::1]:10250/", "https://node-1"}, []string{"http://127.0.0.1:10250", "127.0.0.1:10250", "https://", "https:///pods"}},
				"cluster.kubeletCA":            {[]string{"/etc/kubernetes/pki/ca.crt"}, []string{"ca.crt", "./ca.crt"}},
				"cluster.nriSocket":            {[]string{"/run/nri/nri.sock"}, []string{"run/nri.sock", "unix:///run/nri.sock", "none"}}, // none needs runtimeEndpoint
				"cluster.runtimeEndpoint":      {[]string{"unix:///run/containerd/containerd.sock"}, []string{"/run/containerd/containerd.sock", "unix://run"}},
				"cluster.kubeletDir":           {[]string{"/var/lib/kubelet", "kubelet"}, []string{"a\x00b"}},
				"cluster.pinning.namespaces[]": {[]string{"db", "a-1", strings.Repeat("a", 63)}, []string{"Db", "a.b", "-a", "a-", "a_b", strings.Repeat("a", 64)}},
				"readPeerConfig[]":             {[]string{"ack-slo", "koordinator"}, []string{"Koordinator", "koordlet"}},
				"resource-qos-config.clusterStrategy.lsClass.memoryLocality.policy":                 {[]string{"bestEffort", "BESTEFFORT", "None"}, []string{"best", "bestEffort "}},
				"resource-qos-config.clusterStrategy.lsClass.memoryLocality.migrateIntervalMinutes": {[]string{"none", "NONE"}, []string{"never", "10"}},
			},
			"scheduler.args": {
				"leaseNamespace":       {[]string{"berth-system"}, []string{"Berth", "a/b", strings.Repeat("a", 64)}},
				"namespaces[]":         {[]string{"db"}, []string{"a.b"}},
				"numaAllocateStrategy": {[]string{"MostAllocated"}, []string{"X", "mostAllocated"}},
			},
		}[p.at] {
			for want, list := range map[bool][]string{true: c.good, false: c.bad} {
				for _, text := range list {
					if s.compare(t, p, document(steps(place), text)) != want {
						t.Errorf("%s %s: Helm takes %q: %t", p.at, place, text, !want)
					}
				}
			}
		}
	}
}

// TestConditions checks that Helm and the programs agree about fields that depend on each other.
func TestConditions(t *testing.T) {
	s := readSchema(t)
	selector := func(text string) string { return "{nodeStrategies: [{nodeSelector: " + text + "}]}" }
	for _, p := range parts(t) {
		for text, want := range map[string]map[string]bool{
			"agent.config": {
				"{cluster: {nriSocket: none, runtimeEndpoint: 'unix:///run/a'}}": true,
				"{cluster: {nriSocket: none, runtimeEndpoint: ''}}":              false,
				"{cluster: {nriSocket: /run/a, runtimeEndpoint: ''}}":            true,
			},
			"config.cpu-burst-config": {
				"{nodeStrategies: [{policy: auto}]}":                                           false,
				selector("{}"):                                                                 true,
				selector("{matchLabels: {example.com/pool: a, b: ''}}"):                        true,
				selector("{matchLabels: {'a b': c}}"):                                          false,
				selector("{matchLabels: {a: 'b c'}}"):                                          false,
				selector("{matchLabels: {a: 1}}"):                                              false,
				selector("{matchLabels: {Example.com/a: b}}"):                                  false,
				selector("{matchLabels: {" + strings.Repeat("a", 63) + ": b}}"):                true,
				selector("{matchLabels: {" + strings.Repeat("a", 64) + ": b}}"):                false,
				selector("{matchLabels: {" + strings.Repeat("a", 253) + "/a: b}}"):             true,
				selector("{matchLabels: {" + strings.Repeat("a", 254) + "/a: b}}"):             false,
				selector("{matchExpressions: [{key: a, operator: In, values: [b]}]}"):          true,
				selector("{matchExpressions: [{key: a, operator: NotIn, values: []}]}"):        false,
				selector("{matchExpressions: [{key: a, operator: In}]}"):                       false,
				selector("{matchExpressions: [{key: a, operator: Exists}]}"):                   true,
				selector("{matchExpressions: [{key: a, operator: DoesNotExist, values: []}]}"): true,
				selector("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"):      false,
				selector("{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}"):        false,
				selector("{matchExpressions: [{operator: Exists}]}"):                           false,
				selector("{matchExpressions: [{key: a, operator: Exists, value: b}]}"):         false,
			},
		}[p.at] {
			if s.compare(t, p, values(t, text)) != want {
				t.Errorf("%s: Helm takes %s: %t", p.at, text, !want)
			}
		}
	}
}

// TestTakenValues draws whole values from the schema. The program must take each value that Helm takes, except for the
// rules that a schema cannot express.
func TestTakenValues(t *testing.T) {
	s := readSchema(t)
	for _, p := range parts(t) {
		t.Run(p.at, func(t *testing.T) {
			taken := 0
			rapid.Check(t, func(t *rapid.T) {
				value := s.draw(t, s.of(p))
				if s.refusal(p, value) != nil {
					return // a condition between fields
				}
				taken++
				if problems := p.unexpected(value); len(problems) > 0 {
					t.Errorf("Helm takes %v: %v", value, problems)
				}
			})
			if taken == 0 {
				t.Error("no drawn value is taken")
			}
		})
	}
}

// draw returns a value of a schema, without the conditions between fields.
func (s schema) draw(t *rapid.T, of any) any {
	inner := s.follow(of)
	if choices, there := inner["anyOf"].([]any); there {
		return s.draw(t, rapid.SampledFrom(choices).Draw(t, "choice"))
	}
	if words, there := inner["enum"].([]any); there {
		return rapid.SampledFrom(words).Draw(t, "word")
	}
	switch inner["type"] {
	case "boolean":
		return rapid.Bool().Draw(t, "truth")
	case "integer":
		low, _ := inner["minimum"].(json.Number).Int64()
		high, _ := inner["maximum"].(json.Number).Int64()
		return rapid.Int64Range(low, high).Draw(t, "number")
	case "array":
		return s.drawList(t, inner["items"])
	case "object":
		return s.drawObject(t, inner)
	}
	if form, there := inner["pattern"].(string); there {
		return rapid.StringMatching(form).Draw(t, "form")
	}
	return rapid.String().Draw(t, "text")
}

// drawList returns a list of different elements.
func (s schema) drawList(t *rapid.T, items any) any {
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		drawn := s.draw(t, items)
		if !slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(drawn, other) }) {
			list = append(list, drawn)
		}
	}
	return list
}

// drawObject returns an object with some of its fields. A field that belongs to Koordinator has any content, and a
// selector of nodes, whose fields depend on each other, is one of few: TestConditions has the others.
func (s schema) drawObject(t *rapid.T, of object) any {
	properties, closed := of["properties"].(map[string]any)
	if !closed {
		return map[string]any{"any": rapid.SampledFrom([]any{nil, "", int64(1), true}).Draw(t, "content")}
	}
	if properties["matchExpressions"] != nil {
		return rapid.SampledFrom([]any{
			map[string]any{},
			map[string]any{"matchLabels": map[string]any{"pool": "a"}},
			map[string]any{"matchExpressions": []any{map[string]any{"key": "pool", "operator": "Exists"}}},
		}).Draw(t, "selector")
	}
	required, _ := of["required"].([]any)
	drawn := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || rapid.Bool().Draw(t, name) {
			drawn[name] = s.draw(t, properties[name])
		}
	}
	return drawn
}

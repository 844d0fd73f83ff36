package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the generated part of the schema")

// generated begins the last member of the schema, which follows from Go types. All members before it are written by
// hand.
const generated = "\n  \"$defs\": "

// TestSchemaIsGenerated compares the definitions of the schema with the Go types that agent and scheduler decode.
func TestSchemaIsGenerated(t *testing.T) {
	path := filepath.Join(dir, "values.schema.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _, found := strings.Cut(string(text), generated)
	if !found {
		t.Fatalf("%s has no member $defs", path)
	}
	made := byHand + generated + definitions(t) + "\n}\n"
	if *update {
		if err := os.WriteFile(path, []byte(made), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), made); diff != "" {
		t.Errorf("%s (-update writes it; -file +generated):\n%s", path, diff)
	}
}

// TestSchemaKnowsTheFields checks that the schema has exactly the fields of the Go types, at every depth, except the
// fields that the chart does not take.
func TestSchemaKnowsTheFields(t *testing.T) {
	s := readSchema(t)
	for _, p := range parts(t) {
		var known []string
		s.walk(nil, s.of(p), func(path []string, _ object) { known = append(known, place(path)) })
		slices.Sort(known)
		fields := slices.Sorted(slices.Values(paths(nil, p.kind)))
		if diff := cmp.Diff(fields, known); diff != "" {
			t.Errorf("%s (-fields +schema):\n%s", p.at, diff)
		}
	}
}

// paths returns the paths of a Go type and of its fields that the chart takes.
func paths(path []string, kind reflect.Type) []string {
	all := []string{place(path)}
	switch kind.Kind() {
	case reflect.Slice:
		all = append(all, paths(join(path, element), kind.Elem())...)
	case reflect.Struct:
		for _, f := range fieldsOf(kind) {
			if _, not := omitted()[f.key]; !not {
				all = append(all, paths(join(path, f.name), f.kind)...)
			}
		}
	}
	return all
}

// omitted returns the fields that the chart does not take, with the reason.
func omitted() map[string]string {
	return map[string]string{
		"AgentConfig.listen":      "the DaemonSet probes it",
		"AgentConfig.stateDir":    "the DaemonSet mounts it",
		"AgentConfig.workloadDir": "pods are the workloads",
		"HistoryConfig.listen":    "the agent of a cluster must not have it",
		"WebConfig.tls":           "agent.tls sets it, and without agent.tls the agent must not have it",
		"TypeMeta.apiVersion":     "the manifests write it",
		"TypeMeta.kind":           "the manifests write it",
	}
}

// field is a field of a Go struct as JSON has it.
type field struct {
	name string
	key  string       // The type that declares the field, and its name: "BurstConfig.maxPercent".
	kind reflect.Type // Without pointers.
}

// fieldsOf returns the fields of a struct, with the fields of inlined structs.
func fieldsOf(kind reflect.Type) []field {
	var all []field
	for f := range kind.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && options == "inline" {
			all = append(all, fieldsOf(f.Type)...)
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		all = append(all, field{name: name, key: kind.Name() + "." + name, kind: inner})
	}
	return all
}

// maker describes Go types as definitions of the schema, each under the name of its type. It gets the fields from the
// types, the words from the lists of the validators, and the bounds of a number from the decoder: the least and the
// greatest number that the decoder takes. Thus no bound is written twice.
type maker struct {
	t           *testing.T
	part        part
	definitions map[string]any
	forms       map[string]map[string]any
	limits      map[string]map[string]any
	used, left  map[string]bool // The fields of the schema, and those that omitted leaves out.
}

// definitions returns the generated member of the schema.
func definitions(t *testing.T) string {
	t.Helper()
	m := &maker{
		t: t, forms: forms(), limits: limits(), used: map[string]bool{}, left: map[string]bool{},
		definitions: map[string]any{reflect.TypeFor[metav1.LabelSelector]().Name(): labelSelector()},
	}
	for _, p := range parts(t) {
		m.part = p
		m.object(nil, p.kind)
	}
	for _, table := range []map[string]map[string]any{m.forms, m.limits} {
		for key := range table {
			if !m.used[key] {
				t.Errorf("%s is in forms or limits, but is no field", key)
			}
		}
	}
	for key := range omitted() {
		if !m.left[key] {
			t.Errorf("%s is omitted, but is no field", key)
		}
	}
	for name := range conditions() {
		if _, known := m.definitions[name]; !known {
			t.Errorf("%s has conditions, but is no type", name)
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("  ", "  ")
	if err := encoder.Encode(m.definitions); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// object returns a reference to the definition of a struct. The first reference makes the definition.
func (m *maker) object(path []string, kind reflect.Type) map[string]any {
	name := kind.Name()
	reference := map[string]any{"$ref": "#/$defs/" + name}
	if _, known := m.definitions[name]; known {
		return reference
	}
	properties, required := map[string]any{}, []string{}
	for _, f := range fieldsOf(kind) {
		if _, not := omitted()[f.key]; not {
			m.left[f.key] = true
			continue
		}
		m.used[f.key] = true
		at := join(path, f.name)
		described := m.describe(at, f.key, f.kind)
		maps.Copy(described, m.limits[f.key])
		properties[f.name] = described
		if m.missed(at) {
			required = append(required, f.name)
		}
	}
	definition := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		definition["required"] = required
	}
	maps.Copy(definition, conditions()[name])
	m.definitions[name] = definition
	return reference
}

// describe returns the schema of a field, or of an element of its list.
func (m *maker) describe(path []string, key string, kind reflect.Type) map[string]any {
	switch kind.Kind() {
	case reflect.Struct:
		return m.object(path, kind)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": m.describe(join(path, element), key, kind.Elem())}
	case reflect.Map: // An object of Koordinator, without an effect in Berth.
		return map[string]any{"type": "object"}
	case reflect.Bool:
		return m.truth(path)
	case reflect.Int64:
		return m.number(path)
	case reflect.String:
		return m.text(path, key)
	case reflect.Interface: // A number, or a text.
		return map[string]any{"anyOf": []any{m.number(path), m.text(path, key)}}
	default:
		m.t.Fatalf("%s: no schema for a %s", key, kind)
		return nil
	}
}

// truth describes a boolean field. Some fields have only one possible value in a cluster.
func (m *maker) truth(path []string) map[string]any {
	var taken []any
	for _, value := range []any{false, true} {
		if m.takes(path, value) {
			taken = append(taken, value)
		}
	}
	if len(taken) == 1 {
		return map[string]any{"enum": taken}
	}
	return map[string]any{"type": "boolean"}
}

func (m *maker) number(path []string) map[string]any {
	taken := func(n int64) bool { return m.takes(path, n) }
	for _, start := range []int64{0, 100} {
		if taken(start) {
			return map[string]any{"type": "integer", "minimum": edge(taken, start, math.MinInt64), "maximum": edge(taken, start, math.MaxInt64)}
		}
	}
	m.t.Fatalf("%s takes neither 0 nor 100: name another number to start from", place(path))
	return nil
}

// edge returns the last number that is taken between in, which is taken, and out.
func edge(taken func(int64) bool, in, out int64) int64 {
	if taken(out) {
		return out
	}
	for in+1 != out && in-1 != out {
		middle := in/2 + out/2 + (in%2+out%2)/2 // in+out may overflow
		if taken(middle) {
			in = middle
		} else {
			out = middle
		}
	}
	return in
}

// text describes a text field. An empty word is a default, where the decoder takes it.
func (m *maker) text(path []string, key string) map[string]any {
	form, known := m.forms[key]
	if !known {
		m.t.Fatalf("forms does not say which texts %s takes", key)
	}
	if words, listed := form["enum"].([]any); listed && m.takes(path, "") {
		return map[string]any{"enum": append(slices.Clip(words), "")}
	}
	return maps.Clone(form)
}

// takes reports whether the decoder takes a value of a field: it has no problem in addition to its problems without
// that field.
func (m *maker) takes(path []string, value any) bool {
	without := path
	if path[len(path)-1] == element {
		without = path[:len(path)-1]
	}
	var before []string
	for _, problem := range m.part.problems(document(without, nil)) {
		before = append(before, problem.Field)
	}
	return !slices.ContainsFunc(m.part.problems(document(path, value)), func(problem v1alpha1.FieldError) bool {
		return !slices.Contains(before, problem.Field)
	})
}

// missed reports whether the decoder refuses an object without a field.
func (m *maker) missed(path []string) bool {
	return slices.ContainsFunc(m.part.problems(document(path, nil)), func(problem v1alpha1.FieldError) bool {
		return anyIndex(problem.Field) == place(path)
	})
}

// forms returns the schema of each text, by the field's key. Patterns have no syntax that JavaScript lacks, because
// editors use the schema too. An empty text means the default, where the agent has one.
func forms() map[string]map[string]any {
	const (
		id        = `(102[0-3]|10[01][0-9]|[0-9]{1,3})`
		cpus      = id + `(-` + id + `(:[0-9]{1,4}/[0-9]{1,4})?)?`
		inGroup   = `[^/\x00-\x1f\x7f]`
		group     = `([^./\x00-\x1f\x7f]` + inGroup + `*|\.[^./\x00-\x1f\x7f]` + inGroup + `*|\.\.` + inGroup + `+)` // neither . nor ..
		label     = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
		duration  = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|ms|s|m|h)`
		hexColons = `[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*`
		host      = `([A-Za-z0-9._-]+|\[` + hexColons + `\])`
	)
	none := anyCase(string(v1alpha1.MemoryLocalityNone))
	policies := make([]string, 0, 2)
	for _, policy := range v1alpha1.MemoryLocalityPolicies() {
		policies = append(policies, anyCase(string(policy)))
	}
	return map[string]map[string]any{
		"AgentConfig.readPeerConfig":            words(v1alpha1.PeerConfigs()),
		"AgentConfig.reservedCPUs":              pattern(`(` + cpus + `(,` + cpus + `)*)?\n*`),
		"AgentConfig.sharedPool":                pattern(group + `(/` + group + `)*`),
		"CPUBurst.policy":                       words(v1alpha1.CPUBurstPolicies()),
		"ClusterConfig.kubeconfig":              pattern(`[^\x00]*`),
		"ClusterConfig.kubeletCA":               pattern(`(/[^\x00]*)?`),
		"ClusterConfig.kubeletDir":              pattern(`[^\x00]*`),
		"ClusterConfig.kubeletURL":              pattern(`(https://` + host + `(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?)?`),
		"ClusterConfig.nodeName":                anyText(),
		"ClusterConfig.nriSocket":               pattern(`(` + v1alpha1.NoNRI + `|/[^\x00]*)?`),
		"ClusterConfig.runtimeEndpoint":         pattern(`(unix:///[^\x00]*)?`),
		"HistoryConfig.maxBytes":                pattern(`([0-9]+(Ki|Mi|Gi)?)?`),
		"HistoryConfig.retention":               pattern(`(\+?(` + duration + `)+)?`),
		"MemoryLocality.migrateIntervalMinutes": pattern(none),
		"MemoryLocality.policy":                 pattern(`(` + strings.Join(policies, "|") + `)`),
		"NodeProfile.name":                      anyText(),
		"PinRules.namespaces":                   pattern(label),
		"PinRules.requestBelowLimit":            words(v1alpha1.RequestBelowLimits()),
		"QOSPolicies.cpuPolicy":                 words(v1alpha1.CPUPolicies()),
		"QOSPolicies.netQOSPolicy":              anyText(),
		"ResourceThreshold.cpuEvictPolicy":      anyText(),
		"ResourceThreshold.cpuSuppressPolicy":   words(v1alpha1.CPUSuppressPolicies()),
		"SchedulerArgs.leaseNamespace":          pattern(`(` + label + `)?`),
		"SchedulerArgs.namespaces":              pattern(label),
		"SchedulerArgs.numaAllocateStrategy":    words(v1alpha1.NUMAAllocateStrategies()),
		"SchedulerArgs.requestBelowLimit":       words(v1alpha1.RequestBelowLimits()),
		"WebConfig.hosts":                       pattern(`([^ \t/@\[\]*:]+|` + hexColons + `)`),
	}
}

func anyText() map[string]any { return map[string]any{"type": "string"} }

// pattern describes a text that has a form as a whole.
func pattern(form string) map[string]any {
	return map[string]any{"type": "string", "pattern": "^" + form + "$"}
}

func words[T ~string](list []T) map[string]any {
	all := make([]any, len(list))
	for i, word := range list {
		all[i] = string(word)
	}
	return map[string]any{"enum": all}
}

// anyCase returns a pattern of a word of ASCII letters in any letter case.
func anyCase(word string) string {
	var form strings.Builder
	for _, letter := range word {
		fmt.Fprintf(&form, "[%s%s]", strings.ToUpper(string(letter)), strings.ToLower(string(letter)))
	}
	return form.String()
}

// limits returns the limits of lists in the validators, by the field's key.
func limits() map[string]map[string]any {
	short := map[string]any{"uniqueItems": true, "maxItems": 1024}
	return map[string]map[string]any{
		"AgentConfig.readPeerConfig": {"uniqueItems": true},
		"AgentConfig.sharedPool":     short,
		"PinRules.namespaces":        short,
		"SchedulerArgs.namespaces":   short,
	}
}

// conditions returns the rules between fields of one object, by the name of its type.
func conditions() map[string]map[string]any {
	return map[string]map[string]any{
		"ClusterConfig": {
			"if": map[string]any{
				"required":   []string{"nriSocket"},
				"properties": map[string]any{"nriSocket": map[string]any{"const": v1alpha1.NoNRI}},
			},
			"then": map[string]any{
				"required":   []string{"runtimeEndpoint"},
				"properties": map[string]any{"runtimeEndpoint": map[string]any{"minLength": 1}},
			},
		},
	}
}

// labelSelector describes the selector of nodes. Its Go types say nothing about the form of labels, nor which values an
// operator takes.
func labelSelector() map[string]any {
	const (
		name   = `([A-Za-z0-9][A-Za-z0-9_.-]{0,61})?[A-Za-z0-9]`
		prefix = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`
	)
	key, value := pattern(`(`+prefix+`/)?`+name), pattern(`(`+name+`)?`)
	key["not"] = map[string]any{"pattern": "^[^/]{254}"} // a prefix has at most 253 characters
	only := []any{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"matchLabels": map[string]any{"type": "object", "propertyNames": key, "additionalProperties": value},
			"matchExpressions": map[string]any{"type": "array", "items": map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"key", "operator"},
				"properties": map[string]any{
					"key":      key,
					"operator": map[string]any{"enum": append(slices.Clip(only), metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
					"values":   map[string]any{"type": "array", "items": value},
				},
				"if":   map[string]any{"properties": map[string]any{"operator": map[string]any{"enum": only}}},
				"then": map[string]any{"required": []string{"values"}, "properties": map[string]any{"values": map[string]any{"minItems": 1}}},
				"else": map[string]any{"properties": map[string]any{"values": map[string]any{"maxItems": 0}}},
			}},
		},
	}
}

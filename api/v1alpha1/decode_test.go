package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestDecodeCPUBurst(t *testing.T) {
	tests := []struct {
		name, value string
		want        []string // the problems, none where the value is good
	}{
		{"seed", `{"policy": "cfsQuotaBurstOnly", "cpuBurstPercent": 100, "cfsQuotaBurstPercent": 300, "cfsQuotaBurstPeriodSeconds": -1}`, nil},
		{"empty object", `{}`, nil},
		{"null is absent", `{"policy": null}`, nil},
		{"edges", `{"policy":"auto","cpuBurstPercent":0,"cfsQuotaBurstPercent":100,"cfsQuotaBurstPeriodSeconds":0}`, nil},
		{"other edges", `{"cpuBurstPercent":10000,"cfsQuotaBurstPercent":10000,"cfsQuotaBurstPeriodSeconds":86400}`, nil},
		{"every problem", `{"policy":"Auto","cpuBurstPercent":-1,"cfsQuotaBurstPercent":99,"cfsQuotaBurstPeriodSeconds":86401,"x":1}`, []string{
			`field x: value 1: allowed: only the fields cfsQuotaBurstPercent, cfsQuotaBurstPeriodSeconds, cpuBurstPercent, policy`,
			`field policy: value "Auto": allowed: one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto`,
			`field cpuBurstPercent: value -1: allowed: 0 to 10000`,
			`field cfsQuotaBurstPercent: value 99: allowed: 100 to 10000`,
			`field cfsQuotaBurstPeriodSeconds: value 86401: allowed: -1 to 86400`,
		}},
		{"wrong kinds", `{"policy":1,"cpuBurstPercent":"1000","cfsQuotaBurstPercent":1.5,"cfsQuotaBurstPeriodSeconds":true}`, []string{
			`field cfsQuotaBurstPercent: value 1.5: allowed: a whole number`,
			`field cfsQuotaBurstPeriodSeconds: value true: allowed: a whole number`,
			`field cpuBurstPercent: value "1000": allowed: a whole number`,
			`field policy: value 1: allowed: a string (put it in quotes)`,
		}},
		{"letter case", `{"Policy":"auto"}`, []string{
			`field Policy: value "auto": allowed: only the fields cfsQuotaBurstPercent, cfsQuotaBurstPeriodSeconds, cpuBurstPercent, policy`,
		}},
		{"empty policy", `{"policy":""}`, []string{`field policy: value "": allowed: one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto`}},
		{"too large for an integer", `{"cpuBurstPercent":1e400}`, []string{`field cpuBurstPercent: value 1e400: allowed: a whole number`}},
		{"twice", `{"policy":"none","policy":"auto"}`, []string{`field policy: value "auto": allowed: the field only once`}},
		{"no object", `"auto"`, []string{`value "auto": allowed: an object of fields`}},
		{"list", `[]`, []string{`value []: allowed: an object of fields`}},
		{"empty text", ``, []string{`value "": allowed: one JSON value: unexpected EOF`}},
		{"unfinished", `{"policy":`, []string{`value "{\"policy\":": allowed: one JSON value: unexpected EOF`}},
		{"more behind", `{} {}`, []string{`value "{} {}": allowed: one JSON value: there is more after its end`}},
		{"odd key", "{\"a\\nb\":1}", []string{
			`field "a\nb": value 1: allowed: only the fields cfsQuotaBurstPercent, cfsQuotaBurstPeriodSeconds, cpuBurstPercent, policy`,
		}},
		{"deep", strings.Repeat("[", 100_000), []string{
			`value "` + strings.Repeat("[", 63) + `…: allowed: one JSON value: nested deeper than 16`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, refused, unknown := DecodeCPUBurst(test.value)
			problems := append(unknown, refused...)
			if diff := cmp.Diff(test.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuantityExponent uses what makes resource.Quantity compute for minutes.
func TestQuantityExponent(t *testing.T) {
	for _, limit := range []string{`"1e100000000"`, `1e100000000`, `"1E-2000000000"`, `"` + strings.Repeat("9", 1000) + `"`} {
		doc := fmt.Sprintf(`{"apiVersion":"berth.dev/v1alpha1","kind":"Workload","metadata":{"name":"a"},"spec":{"cgroup":"a","cpu":{"limit":%s}}}`, limit)
		_, problems := DecodeWorkload([]byte(doc))
		if len(problems) != 1 || problems[0].Field != "spec.cpu.limit" {
			t.Errorf("limit %.20s: problems %v, want one of spec.cpu.limit", limit, problems)
		}
	}
}

func TestDecodeAgentConfigDefaults(t *testing.T) {
	got, problems := DecodeAgentConfig([]byte(`{"workloadDir":"/w","cpu-burst-config":{"clusterStrategy":{"policy":"auto"}}}`))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	auto := CPUBurstAuto
	want := AgentConfig{
		Isolation:   IsolationConfig{PullReservePercent: new(int64(0))},
		WorkloadDir: "/w",
		StateDir:    "/var/lib/berth",
		Listen:      "127.0.0.1:9316",
		Web:         WebConfig{Token: new(false)},
		CPUBurst: CPUBurstConfig{ClusterStrategy: BurstStrategy{
			CPUBurst: CPUBurst{
				Policy: &auto, CPUBurstPercent: new(int64(1000)),
				CFSQuotaBurstPercent: new(int64(300)), CFSQuotaBurstPeriodSeconds: new(int64(60)),
			},
			SharePoolThresholdPercent: new(int64(50)),
		}},
		Burst:    BurstConfig{Enabled: new(true), MaxPercent: new(int64(1000)), MaxPeriodSeconds: new(int64(3600)), AllowUnlimited: new(false)},
		Locality: LocalityConfig{Enabled: new(true), MaxBandwidthMiBps: new(int64(256))},
		History:  HistoryConfig{Enabled: new(true), Retention: "24h", MaxBytes: "64Mi"},
		ResourceThreshold: ResourceThresholdConfig{ClusterStrategy: ResourceThreshold{
			Enable: new(false), CPUSuppressThresholdPercent: new(int64(65)), CPUSuppressMinPercent: new(int64(0)), CPUSuppressPolicy: new("cpuset"),
		}},
		Cluster: ClusterConfig{
			Enabled: new(false), KubeletDir: "/var/lib/kubelet",
			NRISocket: "/var/run/nri/nri.sock",
			Pinning:   PinRules{MaxPinnedCPUsPerNamespace: new(int64(0)), RequestBelowLimit: RequestBelowLimitAllow},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// TestTextsWithAForm: what is said of a number is not that it needs quotes where it would be refused
// in them as well.
func TestTextsWithAForm(t *testing.T) {
	for text, want := range map[string]string{
		`{"listen": 9316}`:                  "field listen: value 9316: allowed: host:port with a port from 0 to 65535, for example 127.0.0.1:9316",
		`{"history": {"maxBytes": 5}}`:      "field history.maxBytes: value 5: allowed: a size from 1Mi to 4Gi, for example 64Mi",
		`{"history": {"retention": 86400}}`: "field history.retention: value 86400: allowed: a duration from 15m to 744h, for example 24h",
	} {
		if _, problems := DecodeAgentConfig([]byte(text)); len(problems) == 0 || problems[0].Error() != want {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
}

func TestInherit(t *testing.T) {
	parent := CPUBurst{CPUBurstPercent: new(int64(7)), CFSQuotaBurstPercent: new(int64(200))}
	own := CPUBurst{CFSQuotaBurstPercent: new(int64(400))}
	got := own.Inherit(parent)
	want := CPUBurst{CPUBurstPercent: new(int64(7)), CFSQuotaBurstPercent: new(int64(400))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inherited (-want +got):\n%s", diff)
	}
	*got.CPUBurstPercent = 8
	if *parent.CPUBurstPercent != 7 {
		t.Error("a change of the heir changed the parent")
	}
}

func TestErrors(t *testing.T) {
	problems := FieldErrors{{Field: "spec.pids[0]", Value: "-3", Allowed: "1 to 4194304"}, {File: "other", Allowed: "something"}, {Field: "x", Value: "1", Allowed: "only with y"}}
	err := fmt.Errorf("load: %w", problems.InFile("redis.yaml").Err())
	want := "load: redis.yaml: field spec.pids[0]: value -3: allowed: 1 to 4194304\nother: missing: allowed: something\nredis.yaml: field x: value 1: only allowed with y"
	if err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if !errors.Is(err, ErrInvalid) {
		t.Error("not an ErrInvalid")
	}
	var one FieldError
	if !errors.As(err, &one) || one.Field != "spec.pids[0]" {
		t.Errorf("errors.As gives %+v", one)
	}
	if problems[0].File != "" {
		t.Error("InFile changed its receiver")
	}
	if FieldErrors(nil).Err() != nil {
		t.Error("no problems are an error")
	}
}

func TestUnnamed(t *testing.T) {
	problem := func(field string) FieldErrors { return FieldErrors{{Field: field}} }
	tests := []struct {
		earlier, later string
		silent         bool
	}{
		{"spec.cgroup", "spec.cgroup", true},
		{"spec.cgroup", "spec", true},
		{"spec", "spec.cgroup", true},
		{"spec.pids[1]", "spec.pids", true},
		{"", "spec", true},
		{"spec.cpu", "spec.cpus", false},
		{"spec.cgroup", "spec.cpu", false},
		{"metadata.name", "spec", false},
	}
	for _, test := range tests {
		if got := len(unnamed(problem(test.earlier), problem(test.later))) == 0; got != test.silent {
			t.Errorf("%q after %q: silent %t, want %t", test.later, test.earlier, got, test.silent)
		}
	}
}

// TestWorkloadRoundTrip says that a valid document is read back as written.
func TestWorkloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawWorkload(t)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, problems := DecodeWorkload(text)
		if err := problems.Err(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}

func drawWorkload(t *rapid.T) Workload {
	table := rapid.MapOf(rapid.StringMatching(`[a-z./]{1,12}`), rapid.String())
	w := Workload{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindWorkload},
		ObjectMeta: metav1.ObjectMeta{
			Name:        rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?`).Draw(t, "name"),
			Annotations: drawTable(t, table),
		},
	}
	switch rapid.IntRange(0, 2).Draw(t, "target") {
	case 0:
		w.Spec.Cgroup = rapid.StringMatching(`[a-z]{1,5}(/[a-z@.-]{3,9}){0,3}`).Draw(t, "cgroup")
	case 1:
		w.Spec.SystemdUnit = rapid.StringMatching(`[a-zA-Z0-9@:_\\-]{1,9}\.(service|scope|slice)`).Draw(t, "unit")
	default:
		w.Spec.PIDs = rapid.SliceOfNDistinct(rapid.IntRange(1, maxPID), 1, 5, rapid.ID).Draw(t, "pids")
	}
	if rapid.Bool().Draw(t, "limited") {
		w.Spec.CPU.Limit = resource.NewMilliQuantity(rapid.Int64Range(1, maxCPUs*1000).Draw(t, "milli"), resource.DecimalSI)
	}
	return w
}

func FuzzDecodeCPUBurst(f *testing.F) {
	f.Add(`{"policy":"auto","cpuBurstPercent":1000,"cfsQuotaBurstPercent":300,"cfsQuotaBurstPeriodSeconds":-1}`)
	f.Add(`{"policy":"none","policy":"auto"}`)
	f.Add(`{"policy":{"a":[1,2,{}]}}`)
	f.Add(`{"cpuBurstPercent":1e400,"x\u0000":null}`)
	f.Fuzz(func(t *testing.T, value string) {
		got, refused, unknown := DecodeCPUBurst(value)
		problems := append(unknown, refused...)
		if len(problems) > 0 {
			mustBeReadable(t, problems)
			return
		}
		var plain CPUBurst
		if err := json.Unmarshal([]byte(value), &plain); err != nil {
			t.Fatalf("taken, but no JSON of this type: %v", err)
		}
		if !reflect.DeepEqual(plain, got) {
			t.Fatalf("read %+v, encoding/json reads %+v", got, plain)
		}
	})
}

func FuzzDecodeWorkload(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"berth.dev/v1alpha1","kind":"Workload","metadata":{"name":"redis","labels":{"koordinator.sh/qosClass":"LSR"},` +
		`"annotations":{"cpuset-scheduler":"true"}},"spec":{"cgroup":"system.slice/redis.service","cpu":{"request":"4","limit":4}}}`))
	f.Add([]byte(`{"spec":{"pids":[1,1,-1,null,"a"],"cpu":{"limit":"1e9"},"systemdUnit":".service"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, problems := DecodeWorkload(data)
		if len(problems) > 0 {
			mustBeReadable(t, problems)
			return
		}
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := DecodeWorkload(text)
		if err := problems.Err(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(w, again); diff != "" {
			t.Fatalf("written and read again (-first +second):\n%s", diff)
		}
	})
}

// mustBeReadable checks that each problem is one line of bounded length.
func mustBeReadable(t *testing.T, problems FieldErrors) {
	t.Helper()
	for _, problem := range problems {
		if problem.Allowed == "" || len(problem.Value) > maxShown+len("…") || strings.ContainsAny(problem.Error(), "\n\x00\x1b") {
			t.Fatalf("not readable: %q", problem)
		}
	}
}

func lines(problems FieldErrors) []string {
	var all []string
	for _, problem := range problems {
		all = append(all, problem.Error())
	}
	return all
}

// drawTable draws a table that is nil rather than empty, as JSON leaves it out.
func drawTable(t *rapid.T, tables *rapid.Generator[map[string]string]) map[string]string {
	if table := tables.Draw(t, "annotations"); len(table) > 0 {
		return table
	}
	return nil
}

// TestHistorySize reads sizes in bytes.
func TestHistorySize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "2Ki": 2048, "64Mi": 64 << 20, "3Gi": 3 << 30, "": 0, "Mi": 0, "-1Mi": 0, "1.5Mi": 0, "1M": 0, "8589934592Gi": 0, "99999999999999999999": 0,
	} {
		if got := (HistoryConfig{MaxBytes: text}).Bytes(); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

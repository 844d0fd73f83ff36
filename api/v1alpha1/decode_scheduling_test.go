package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func TestDecodeResourceSpec(t *testing.T) {
	const onlyFields = "only the fields preferredCPUBindPolicy, preferredCPUExclusivePolicy, requiredCPUBindPolicy, requiredCPUExclusivePolicy"
	tests := []struct {
		name, value string
		want        []string
	}{
		{"all", `{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"SpreadByPCPUs","requiredCPUExclusivePolicy":"NUMANodeLevel","preferredCPUExclusivePolicy":"PCPULevel"}`, nil},
		{"other values", `{"requiredCPUBindPolicy":"ConstrainedBurst","preferredCPUBindPolicy":"Default","preferredCPUExclusivePolicy":"None"}`, nil},
		{"nothing said", `{"preferredCPUBindPolicy":"","requiredCPUExclusivePolicy":null}`, nil},
		{"empty object", `{}`, nil},
		{"every problem", `{"requiredCPUBindPolicy":"fullpcpus","preferredCPUBindPolicy":true,"requiredCPUExclusivePolicy":"Core","preferredCPUExclusivePolicy":" ","numaTopologyPolicy":"Restricted"}`, []string{
			`field numaTopologyPolicy: value "Restricted": allowed: ` + onlyFields,
			`field preferredCPUBindPolicy: value true: allowed: a string (put it in quotes)`,
			`field requiredCPUBindPolicy: value "fullpcpus": allowed: one of Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst`,
			`field requiredCPUExclusivePolicy: value "Core": allowed: one of None, PCPULevel, NUMANodeLevel`,
			`field preferredCPUExclusivePolicy: value " ": allowed: one of None, PCPULevel, NUMANodeLevel`,
		}},
		{"no JSON", `FullPCPUs`, []string{`value "FullPCPUs": allowed: one JSON value: byte 0: invalid character 'F' looking for beginning of value`}},
		{"twice", `{"requiredCPUBindPolicy":"FullPCPUs","requiredCPUBindPolicy":"Default"}`, []string{`field requiredCPUBindPolicy: value "Default": allowed: the field only once`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, refused, unknown := DecodeResourceSpec(test.value)
			problems := append(unknown, refused...)
			if diff := cmp.Diff(test.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeNUMATopologySpec(t *testing.T) {
	tests := []struct {
		name, value string
		want        []string
	}{
		{"all", `{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}`, nil},
		{"nothing said", `{"numaTopologyPolicy":"","singleNUMANodeExclusive":""}`, nil},
		{"problems", `{"numaTopologyPolicy":"single-numa-node","singleNUMANodeExclusive":"Preffered","x":{}}`, []string{
			`field x: value {}: allowed: only the fields numaAllocateStrategy, numaTopologyPolicy, singleNUMANodeExclusive`,
			`field numaTopologyPolicy: value "single-numa-node": allowed: one of BestEffort, Restricted, SingleNUMANode`,
			`field singleNUMANodeExclusive: value "Preffered": allowed: one of Preferred, Required`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, refused, unknown := DecodeNUMATopologySpec(test.value)
			problems := append(unknown, refused...)
			if diff := cmp.Diff(test.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeSchedulerArgs(t *testing.T) {
	defaults := SchedulerArgs{
		MaxPinnedCPUsPerNamespace: new(int64(0)), RequestBelowLimit: RequestBelowLimitAllow, NUMAAllocateStrategy: NUMAMostAllocated,
		LeaseNamespace: "berth-system", StaleAfterSeconds: new(int64(180)),
	}
	for _, value := range []string{"", "{}", `{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulerArgs"}`} {
		got, problems := DecodeSchedulerArgs([]byte(value))
		got.APIVersion, got.Kind = "", ""
		if diff := cmp.Diff(defaults, got); diff != "" || len(problems) > 0 {
			t.Errorf("%q: problems %v, defaults (-want +got):\n%s", value, problems, diff)
		}
	}
	got, problems := DecodeSchedulerArgs([]byte(`{"namespaces":["prod","batch-1"],"maxPinnedCPUsPerNamespace":64,"requestBelowLimit":"deny","numaAllocateStrategy":"LeastAllocated","sayFitsAfterRepack":true,"leaseNamespace":"b","staleAfterSeconds":0}`))
	want := SchedulerArgs{
		Namespaces: []string{"prod", "batch-1"}, MaxPinnedCPUsPerNamespace: new(int64(64)), RequestBelowLimit: RequestBelowLimitDeny, NUMAAllocateStrategy: NUMALeastAllocated,
		SayFitsAfterRepack: true, LeaseNamespace: "b", StaleAfterSeconds: new(int64(0)),
	}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v, args (-want +got):\n%s", problems, diff)
	}
}

func TestDecodeSchedulerArgsProblems(t *testing.T) {
	_, problems := DecodeSchedulerArgs([]byte(`{"apiVersion":"berth.dev/v1","kind":"BerthArgs","namespaces":["a","a","B","a.b",null],"maxPinnedCPUsPerNamespace":-1,` +
		`"requestBelowLimit":"Deny","bindMode":"Patch","leaseNamespace":"-","staleAfterSeconds":86401,"staleAfter":"1m"}`))
	want := []string{
		`field bindMode: value "Patch": allowed: only the fields apiVersion, kind, leaseNamespace, maxPinnedCPUsPerNamespace, namespaces, numaAllocateStrategy, requestBelowLimit, sayFitsAfterRepack, staleAfterSeconds`,
		`field namespaces[4]: value null: allowed: a string (put it in quotes)`,
		`field staleAfter: value "1m": allowed: only the fields apiVersion, kind, leaseNamespace, maxPinnedCPUsPerNamespace, namespaces, numaAllocateStrategy, requestBelowLimit, sayFitsAfterRepack, staleAfterSeconds`,
		`field apiVersion: value "berth.dev/v1": allowed: berth.dev/v1alpha1`,
		`field kind: value "BerthArgs": allowed: SchedulerArgs`,
		`field maxPinnedCPUsPerNamespace: value -1: allowed: 0 to 2147483647`,
		`field requestBelowLimit: value "Deny": allowed: one of allow, deny`,
		`field leaseNamespace: value "-": allowed: lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63`,
		`field staleAfterSeconds: value 86401: allowed: 0 to 86400`,
	}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	_, problems = DecodeSchedulerArgs([]byte(`{"namespaces":["a","a","B","a.b"]}`))
	const allowed = `lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63`
	want = []string{
		`field namespaces[1]: value "a": allowed: each namespace only once`,
		`field namespaces[2]: value "B": allowed: ` + allowed,
		`field namespaces[3]: value "a.b": allowed: ` + allowed,
	}
	if diff := cmp.Diff(want, lines(problems)); diff != "" {
		t.Errorf("problems of namespaces (-want +got):\n%s", diff)
	}
}

func TestDecodePlacement(t *testing.T) {
	const hash = `"topology":"0123456789abcdef"`
	one := func(container string) string {
		return `{"v":1,` + hash + `,"containers":{"app":` + container + `}}`
	}
	const list = `a list such as "0-3,8" of ids from 0 to 1023, not empty`
	const domain = `with the policy static-burst "l3:" or "numa:" and an id; none without it`
	tests := []struct {
		name, value string
		want        []string
	}{
		{"as in the documentation", one(`{"cpus":"0-3","mems":"0","policy":"exclusive"}`), nil},
		{"static-burst", one(`{"cpus":"0-3,1023","mems":"0-1","policy":"static-burst","domain":"l3:4294967295"}`), nil},
		{"exclusive", `{"v":1,` + hash + `,"exclusive":"PCPULevel","containers":{"a":{"cpus":"0","mems":"0","policy":"exclusive"}}}`, nil},
		{"from a later writer", `{"v":1,` + hash + `,"new":[{"deep":{}}],"containers":{"a":{"cpus":"0","mems":"0","policy":"exclusive","why":{"a":1}}}}`, nil},
		{"nothing", `{}`, []string{
			`field v: value 0: allowed: 1 to 1`,
			`field topology: missing: allowed: 16 hexadecimal digits, the hash of a NodeTopology`,
			`field containers: missing: allowed: one entry for each pinned container`,
		}},
		{"later version", strings.Replace(one(`{"cpus":"0","mems":"0","policy":"exclusive"}`), `"v":1`, `"v":2`, 1), []string{`field v: value 2: allowed: 1 to 1`}},
		{"hash", `{"v":1,"topology":"0123456789ABCDEF","exclusive":"None","containers":{"a":{"cpus":"0","mems":"0","policy":"exclusive"}}}`, []string{
			`field topology: value "0123456789ABCDEF": allowed: 16 hexadecimal digits, the hash of a NodeTopology`,
			`field exclusive: value "None": allowed: one of PCPULevel, NUMANodeLevel`,
		}},
		{"empty container", one(`{}`), []string{
			`field containers[app].cpus: missing: allowed: ` + list,
			`field containers[app].mems: missing: allowed: ` + list,
			`field containers[app].policy: value "": allowed: one of exclusive, static-burst`,
		}},
		{"lists", one(`{"cpus":"0-2000","mems":"1-0","policy":"exclusive"}`), []string{
			`field containers[app].cpus: value "0-2000": allowed: ` + list,
			`field containers[app].mems: value "1-0": allowed: ` + list,
		}},
		{"more lists", one(`{"cpus":"0,","mems":"+1","policy":"exclusive"}`), []string{
			`field containers[app].cpus: value "0,": allowed: ` + list,
			`field containers[app].mems: value "+1": allowed: ` + list,
		}},
		{"domain left out", one(`{"cpus":"0","mems":"0","policy":"static-burst"}`), []string{`field containers[app].domain: missing: allowed: ` + domain}},
		{"domain too many", one(`{"cpus":"0","mems":"0","policy":"exclusive","domain":"l3:0"}`), []string{`field containers[app].domain: value "l3:0": allowed: ` + domain}},
		{"domain unknown", one(`{"cpus":"0","mems":"0","policy":"static-burst","domain":"die:0"}`), []string{`field containers[app].domain: value "die:0": allowed: ` + domain}},
		{"cpus as a number", one(`{"cpus":4,"mems":"0","policy":"exclusive"}`), []string{`field containers[app].cpus: value 4: allowed: a string (put it in quotes)`}},
		{"container as a list", one(`["0-3"]`), []string{`field containers[app]: value ["0-3"]: allowed: an object of fields`}},
		{"long list", one(`{"cpus":"` + strings.Repeat("0,", 4096) + `0","mems":"0","policy":"exclusive"}`), []string{
			`field containers[app].cpus: value "` + strings.Repeat("0,", 31) + `0…: allowed: ` + list,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, problems := DecodePlacement(test.value)
			if diff := cmp.Diff(test.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlacementEncode(t *testing.T) {
	p := Placement{
		V: PlacementVersion, Topology: "0123456789abcdef", Exclusive: CPUExclusivePCPULevel,
		Containers: map[string]ContainerPlacement{
			"b": {CPUs: "4-5", Mems: "1", Policy: PlacementStaticBurst, Domain: "l3:2"},
			"a": {CPUs: "0-3", Mems: "0", Policy: PlacementExclusive},
		},
	}
	const want = `{"v":1,"topology":"0123456789abcdef","exclusive":"PCPULevel","containers":{` +
		`"a":{"cpus":"0-3","mems":"0","policy":"exclusive"},"b":{"cpus":"4-5","mems":"1","policy":"static-burst","domain":"l3:2"}}}`
	if got := p.Encode(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := (Placement{}).Encode(), `{"v":0,"topology":"","containers":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPlacementRoundTrip says that a placement is read back as it was written.
func TestPlacementRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Placement{
			V: PlacementVersion, Topology: rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "hash"),
			Exclusive: rapid.SampledFrom(append([]CPUExclusivePolicy{""}, CPUExclusivePolicies()[1:]...)).Draw(t, "exclusive"),
			Containers: rapid.MapOfN(rapid.StringMatching(`[a-z0-9]{1,9}`), rapid.Custom(func(t *rapid.T) ContainerPlacement {
				id := rapid.IntRange(0, 1022)
				low := id.Draw(t, "low")
				c := ContainerPlacement{CPUs: fmt.Sprintf("%d-%d", low, low+1), Mems: fmt.Sprint(id.Draw(t, "mems")), Policy: PlacementExclusive}
				if rapid.Bool().Draw(t, "burst") {
					c.Policy, c.Domain = PlacementStaticBurst, fmt.Sprintf("numa:%d", id.Draw(t, "domain"))
				}
				return c
			}), 1, 5).Draw(t, "containers"),
		}
		got, problems := DecodePlacement(want.Encode())
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Fatalf("%v, read back (-want +got):\n%s", problems, diff)
		}
	})
}

func FuzzDecodeResourceSpec(f *testing.F) {
	f.Add(`{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`)
	f.Add(`{"requiredCPUBindPolicy":["FullPCPUs"],"requiredcpubindpolicy":null}`)
	f.Fuzz(func(t *testing.T, value string) {
		got, refused, unknown := DecodeResourceSpec(value)
		mustReadAsJSON(t, value, got, append(unknown, refused...))
	})
}

func FuzzDecodeNUMATopologySpec(f *testing.F) {
	f.Add(`{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}`)
	f.Add(`{"numaTopologyPolicy":{},"singleNUMANodeExclusive":1e400}`)
	f.Fuzz(func(t *testing.T, value string) {
		got, refused, unknown := DecodeNUMATopologySpec(value)
		mustReadAsJSON(t, value, got, append(unknown, refused...))
	})
}

func FuzzDecodeSchedulerArgs(f *testing.F) {
	f.Add(`{"namespaces":["prod"],"maxPinnedCPUsPerNamespace":64,"requestBelowLimit":"deny","leaseNamespace":"b","staleAfterSeconds":10}`)
	f.Add(`{"kind":"SchedulerArgs","namespaces":[null,"-",1],"staleAfterSeconds":1e9}`)
	f.Fuzz(func(t *testing.T, value string) {
		got, problems := DecodeSchedulerArgs([]byte(value))
		if len(problems) > 0 {
			mustBeReadable(t, problems)
			return
		}
		if len(got.Namespaces) == 0 {
			got.Namespaces = nil // an empty list is written as none is
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := DecodeSchedulerArgs(text)
		if !reflect.DeepEqual(got, again) || len(problems) > 0 {
			t.Fatalf("%s: %v: read %+v, then %+v", text, problems, got, again)
		}
	})
}

func FuzzDecodePlacement(f *testing.F) {
	f.Add(`{"v":1,"topology":"0123456789abcdef","exclusive":"PCPULevel","containers":{"a":{"cpus":"0-3,8","mems":"0","policy":"exclusive"},"b":{"cpus":"4","mems":"0","policy":"static-burst","domain":"l3:1"}}}`)
	f.Add(`{"v":2,"x":{},"containers":{"":{"cpus":"1-0","mems":",","policy":1}}}`)
	f.Fuzz(func(t *testing.T, value string) {
		got, problems := DecodePlacement(value)
		if len(problems) > 0 {
			mustBeReadable(t, problems)
			return
		}
		again, problems := DecodePlacement(got.Encode())
		if !reflect.DeepEqual(got, again) || len(problems) > 0 {
			t.Fatalf("%s: %v: read %+v, then %+v", got.Encode(), problems, got, again)
		}
	})
}

// mustReadAsJSON checks that what was taken is what encoding/json reads.
func mustReadAsJSON[T any](t *testing.T, value string, got T, problems FieldErrors) {
	t.Helper()
	if len(problems) > 0 {
		mustBeReadable(t, problems)
		return
	}
	var plain T
	if err := json.Unmarshal([]byte(value), &plain); err != nil {
		t.Fatalf("taken, but no JSON of this type: %v", err)
	}
	if !reflect.DeepEqual(plain, got) {
		t.Fatalf("read %+v, encoding/json reads %+v", got, plain)
	}
}
